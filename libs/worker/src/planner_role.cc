// SPDX-License-Identifier: Apache-2.0
#include "planner_role.h"

#include <array>
#include <cstring>
#include <exception>
#include <string>

#include "phalanx/base/bytes_text.h"
#include "phalanx/base/exception_error.h"
#include "phalanx/fleet/child_start.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/machine.h"
#include "phalanx/os/memfd.h"
#include "phalanx/planning/server_plan.h"
#include "phalanx/wire/codec.h"

namespace phalanx::worker {

namespace {

// The leader seals it, so nothing may be mapped when it has it.
Result<os::Memfd> in_memory(const std::string& bytes) {
  PHALANX_TRY(const os::ProcessLimits limits, os::process_limits());
  if (limits.file_bytes < bytes.size()) {
    return resource_exhausted("the limit of this process (ulimit -f) is " +
                              bytes_text(limits.file_bytes) +
                              " of file size and the tokenizer alone has " +
                              bytes_text(bytes.size()) + ": raise it with ulimit -f unlimited");
  }
  PHALANX_TRY(os::Memfd memory, os::Memfd::create("phalanx-tokenizer", bytes.size()));
  PHALANX_TRY(const os::Mapping mapping, memory.map(os::Access::kReadWrite));
  std::memcpy(mapping.data(), bytes.data(), bytes.size());
  return memory;
}

Status plan(fleet::ChildStart& start, const wire::PlannerBootstrap& asked) {
  PHALANX_TRY(const planning::Planned made, planning::make_plan(asked));
  for (const std::string& warning : made.warnings) {
    obs::log_at(obs::LogLevel::kWarn, "model", {{"note", warning}});
  }
  PHALANX_TRY(const os::Memfd tokenizer, in_memory(made.tokenizer_source));
  const std::array<int, 1> fds = {tokenizer.fd()};
  PHALANX_TRY(const os::ControlSent sent,
              start.control().send(wire::encode(wire::ControlRecord(made.plan)), fds));
  return sent == os::ControlSent::kQueued ? ok() : Status(unavailable("the leader takes no plan"));
}

Status plan_or_say_why(fleet::ChildStart& start, const wire::PlannerBootstrap& asked) {
  try {
    return plan(start, asked);
  } catch (const std::exception& error) {
    return error_of(error);
  }
}

}  // namespace

int run_planner(WorkerContext& context) {
  wire::PlannerBootstrap asked;
  auto start = fleet::ChildStart::begin(&asked);
  if (!start) {
    return fleet::fail_child(nullptr, start.error());
  }
  context.set_title("planner");
  const Status planned = plan_or_say_why(**start, asked);
  if (planned) {
    return 0;
  }
  (*start)->tell_failure(planned.error());
  return error_traits(planned.error().code()).exit_status;
}

}  // namespace phalanx::worker
