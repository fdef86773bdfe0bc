// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <cstdio>
#include <exception>

#include "phalanx/base/exception_error.h"
#include "phalanx/os/standard_files.h"

namespace phalanx::app {

namespace {

int report_failure(const Error& error) {
  std::fprintf(stderr, "phalanx-worker: %s\n", error.message().c_str());
  return error_traits(error.code()).exit_status;
}

}  // namespace

int run_worker_program(int argc, char** argv, const worker::Seams& seams) {
  os::prepare_program();
  try {
    return worker::run_worker(argc, argv, seams);
  } catch (const std::exception& error) {
    return report_failure(error_of(error));
  }
}

}  // namespace phalanx::app
