// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <cstdio>
#include <exception>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/exception_error.h"
#include "phalanx/base/printable.h"
#include "phalanx/fleet/child_start.h"
#include "phalanx/os/child_side.h"
#include "phalanx/os/heap.h"
#include "phalanx/os/process_title.h"
#include "phalanx/os/standard_files.h"
#include "phalanx/wire/bootstrap.h"

#include "front.h"

namespace phalanx::app {

namespace {

int live(os::ProcessTitle& title, const FrontSeams& seams) {
  wire::FrontBootstrap bootstrap;
  auto start = fleet::ChildStart::begin(&bootstrap);
  if (!start) {
    return fleet::fail_child(nullptr, start.error());
  }
  os::keep_heap_small();
  title.set("phalanxd: front " + std::to_string(bootstrap.front));
  return fleet::live_child(**start, [&] {
    Front front(**start, bootstrap, seams);
    return front.run();
  });
}

}  // namespace

int run_front(int argc, char** argv, const FrontSeams& seams) {
  os::prepare_program();
  if (!os::has_control_socket()) {
    std::fputs(
        "phalanx-front is started by phalanxd itself, which tells it over descriptor 3 what to do; "
        "to start a server: phalanxd MODEL\n",
        stderr);
    return error_traits(Code::kInvalidArgument).exit_status;
  }
  try {
    os::ProcessTitle title(argc, argv);
    return live(title, seams);
  } catch (const std::exception& error) {
    const Error cause = error_of(error);
    std::fprintf(stderr, "phalanx-front: %s\n", printable(cause.message()).c_str());
    return error_traits(cause.code()).exit_status;
  }
}

}  // namespace phalanx::app
