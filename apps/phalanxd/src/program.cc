// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "phalanx/base/error.h"
#include "phalanx/flags/flag_table.h"
#include "phalanx/fleet/worker_command.h"

#include "leader_role.h"

namespace phalanx::app {

namespace {

int report_failure(const Error& error) {
  std::fprintf(stderr, "phalanxd: %s\n", error.message().c_str());
  return error_traits(error.code()).exit_status;
}

}  // namespace

int run_phalanxd(int argc, char** argv, const worker::Seams& seams) {
  try {
    if (argc > 1 && argv[1] == fleet::kWorkerMode) {
      return worker::run_worker(argc, argv, seams);
    }
    return run_leader(flags::arguments_of(argc, argv), flags::environment_of(environ));
  } catch (const std::bad_alloc&) {
    return report_failure(
        resource_exhausted("out of memory: none is left, or ulimit -v is too low"));
  } catch (const std::system_error& error) {
    const Error cause = errno_error("a thread or a descriptor is refused (see ulimit -u and -n)",
                                    error.code().value());
    return report_failure(cause.code() == Code::kResourceExhausted
                              ? cause
                              : internal_error("unexpected: " + std::string(error.what())));
  } catch (const std::exception& error) {
    return report_failure(internal_error("unexpected: " + std::string(error.what())));
  }
}

}  // namespace phalanx::app
