// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

#include "phalanx/base/exception_error.h"
#include "phalanx/base/printable.h"
#include "phalanx/flags/flag_table.h"
#include "phalanx/os/standard_files.h"

#include "leader_role.h"

namespace phalanx::app {

namespace {

int report_failure(const Error& error) {
  std::fprintf(stderr, "phalanxd: %s\n", printable(error.message()).c_str());
  return error_traits(error.code()).exit_status;
}

}  // namespace

int run_phalanxd(int argc, char** argv, const std::string& worker_program) {
  os::prepare_program();
  try {
    return run_leader(
        flags::arguments_of(argc, argv), flags::environment_of(environ), worker_program);
  } catch (const std::exception& error) {
    return report_failure(error_of(error));
  }
}

}  // namespace phalanx::app
