// SPDX-License-Identifier: Apache-2.0
// phalanx-load: sends load to a server, audits every stream and reports latencies.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "phalanx/base/exception_error.h"
#include "phalanx/base/printable.h"
#include "phalanx/flags/flag_table.h"
#include "phalanx/os/child_side.h"
#include "phalanx/os/machine.h"
#include "phalanx/os/standard_files.h"

#include "result_file.h"
#include "session.h"

namespace {

constexpr int kSomeRequestsFailed = 1;
constexpr int kSignalStatusBase = 128;
constexpr std::uint64_t kOwnFiles = 24;

// What a server has said may be in it.
int complain(const phalanx::Error& error) {
  std::fprintf(stderr, "phalanx-load: %s\n", phalanx::printable(error.message()).c_str());
  return phalanx::error_traits(error.code()).exit_status;
}

int print(const std::string& text) {
  const phalanx::Status printed = phalanx::os::print(text);
  return printed ? 0 : complain(printed.error());
}

// Each request under way is a connection; beyond the limit they would count as failures of the
// server.
void warn_of_limit(const phalanx::load::Options& options, std::uint64_t open_files) {
  const std::int64_t at_once = options.max_concurrency == 0
                                   ? options.num_prompts
                                   : std::min(options.num_prompts, options.max_concurrency);
  if (static_cast<std::uint64_t>(at_once) + kOwnFiles > open_files) {
    std::fprintf(
        stderr,
        "phalanx-load: warning: %lld requests may be under way at once, and %llu files may be open "
        "(ulimit -n): those beyond fail; --max-concurrency bounds them\n",
        static_cast<long long>(at_once),
        static_cast<unsigned long long>(open_files));
  }
}

int status_of(const phalanx::loadgen::Report& report) {
  if (report.unreached == report.records.size()) {
    return phalanx::error_traits(phalanx::Code::kUnavailable).exit_status;
  }
  return report.failed > 0 ? kSomeRequestsFailed : 0;
}

int run(int argc, char** argv) {
  auto parsed = phalanx::load::parse_options(phalanx::flags::arguments_of(argc, argv),
                                             phalanx::flags::environment_of(environ));
  if (!parsed) {
    return complain(parsed.error());
  }
  if (parsed->print_and_exit) {
    return print(*parsed->print_and_exit);
  }
  for (const auto& note : parsed->notes) {
    if (note.is_warning) {
      std::fprintf(stderr, "phalanx-load: warning: %s\n", phalanx::printable(note.text).c_str());
    }
  }
  if (parsed->options.save_result) {
    if (const auto place = phalanx::load::check_result_place(parsed->options); !place) {
      return complain(place.error());
    }
  }
  if (const auto limit = phalanx::os::raise_open_file_limit(); limit) {
    warn_of_limit(parsed->options, *limit);
  }
  const auto outcome = phalanx::load::run_session(parsed->options);
  if (!outcome) {
    return complain(outcome.error());
  }
  const phalanx::loadgen::Report& report = outcome->report;
  if (report.records.empty()) {
    return kSignalStatusBase + outcome->signal;
  }
  // What cannot be shown is saved nevertheless.
  int printed = print(phalanx::loadgen::report_text(report));
  if (parsed->options.save_result) {
    const auto path = phalanx::load::save_report(parsed->options, report);
    if (!path) {
      return complain(path.error());
    }
    printed = std::max(printed, print("result: " + phalanx::printable(*path) + "\n"));
  }
  if (outcome->signal != 0) {
    return kSignalStatusBase + outcome->signal;
  }
  return printed != 0 ? printed : status_of(report);
}

}  // namespace

int main(int argc, char** argv) {
  phalanx::os::prepare_program();
  phalanx::os::ignore_sigpipe();  // an output that nobody reads is told by the write
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return complain(phalanx::error_of(error));
  }
}
