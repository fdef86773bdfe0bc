// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/exception_error.h"
#include "phalanx/base/printable.h"
#include "phalanx/base/version.h"
#include "phalanx/flags/flag_table.h"
#include "phalanx/fleet/model_planner.h"
#include "phalanx/fleet/worker_command.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/child_process.h"
#include "phalanx/os/child_side.h"
#include "phalanx/os/heap.h"
#include "phalanx/os/held_signals.h"
#include "phalanx/os/machine.h"
#include "phalanx/os/standard_files.h"
#include "phalanx/settings/start_limits.h"
#include "phalanx/settings/start_text.h"

#include "leader.h"

namespace phalanx::app {

namespace {

// For the reader of standard error to take the last word of a server that fails.
constexpr auto kPatience = std::chrono::seconds(1);

int fail(const Error& error) {
  obs::print_lines("phalanxd: " + printable(error.message()), obs::LogLevel::kError, kPatience);
  return error_traits(error.code()).exit_status;
}

int print(const std::string& text) {
  const Status printed = os::print(text);
  return printed ? 0 : fail(printed.error());
}

Result<int> serve(settings::Options options, const std::string& worker_program) {
  PHALANX_RETURN_IF_ERROR(os::restrict_process(options.core_dumps));
  PHALANX_TRY(os::ProcessLimits limits, os::process_limits());
  PHALANX_TRY(limits.open_files, os::raise_open_file_limit());
  PHALANX_RETURN_IF_ERROR(settings::apply_limits(limits, &options));
  PHALANX_TRY(std::vector<os::CpuList> cores, settings::core_sets_of(options));
  // Whatever becomes of the file: workers that are started again run what the first ones ran.
  PHALANX_TRY(os::HeldProgram workers, os::HeldProgram::beside(worker_program));
  PHALANX_TRY(wire::PlannerBootstrap bootstrap, settings::planner_bootstrap_of(options));
  PHALANX_TRY(auto planned,
              fleet::plan_model(
                  fleet::worker_plan(fleet::WorkerRole::kPlanner, nullptr, workers.spawn_path()),
                  std::move(bootstrap),
                  from_seconds(options.start_timeout_s)));
  if (const auto* const asked = std::get_if<fleet::EndSignal>(&planned)) {
    return end_status(options, asked->number);
  }
  auto* const made = std::get_if<fleet::MadePlan>(&planned);
  PHALANX_RETURN_IF_ERROR(settings::check_plan_fits(limits, made->plan));
  settings::LeaderPlan plan =
      settings::leader_plan_of(options, std::move(made->plan), std::move(cores));
  obs::print_lines(settings::start_summary(options, plan));
  PHALANX_TRY(ipc::ZmqContext context, ipc::ZmqContext::create());
  Leader leader(options,
                {std::move(plan), std::move(made->tokenizer), workers.spawn_path()},
                std::move(context));
  return leader.run();
}

// From the command line to the exit status.
int run_leader(const std::vector<std::string>& arguments,
               const std::map<std::string, std::string>& environment,
               const std::string& worker_program) {
  os::ignore_sigpipe();
  os::hold_group_signals();
  os::keep_heap_small();
  settings::Options options;
  flags::FlagTable table = settings::make_flag_table(&options);
  const auto request = settings::parse_options(&table, &options, arguments, environment);
  if (!request) {
    return fail(request.error());
  }
  if (*request == flags::FlagTable::Request::kHelp) {
    return print(table.help_text());
  }
  if (*request == flags::FlagTable::Request::kVersion) {
    return print("phalanxd " + std::string(kVersion) + "\n");
  }
  obs::LogOptions log;
  log.level = obs::parse_log_level(options.log_level).value_or(obs::LogLevel::kInfo);
  log.role = "leader";
  obs::start_log(log);
  for (const flags::FlagTable::Note& note : table.notes()) {
    obs::log_at(note.is_warning ? obs::LogLevel::kWarn : obs::LogLevel::kInfo,
                "environment",
                {{"note", note.text}});
  }
  const Result<int> result = serve(options, worker_program);
  return result ? *result : fail(result.error());
}

}  // namespace

int run_phalanxd(int argc, char** argv, const std::string& worker_program) {
  os::prepare_program();
  try {
    return run_leader(
        flags::arguments_of(argc, argv), flags::environment_of(environ), worker_program);
  } catch (const std::exception& exception) {
    const Error error = error_of(exception);
    std::fprintf(stderr, "phalanxd: %s\n", printable(error.message()).c_str());
    return error_traits(error.code()).exit_status;
  }
}

}  // namespace phalanx::app
