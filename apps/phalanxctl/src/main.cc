// SPDX-License-Identifier: Apache-2.0
// phalanxctl: looks at a running phalanxd and operates it, over its local admin socket; and looks
// at models on disk.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>

#include "phalanx/admin/commands.h"
#include "phalanx/base/exception_error.h"
#include "phalanx/base/printable.h"
#include "phalanx/base/version.h"
#include "phalanx/documents/poison_document.h"
#include "phalanx/os/standard_files.h"
#include "phalanx/wire/limits.h"

#include "inspect.h"
#include "operate.h"
#include "options.h"
#include "show_status.h"

namespace phalanx::app {

namespace {

Status print_dump(const CtlOptions& options) {
  if (options.argument.empty()) {
    return invalid_argument("dump: expected the path of a file of --dump-dir, found none");
  }
  PHALANX_TRY(const wire::PoisonedRequest request, documents::read_dump(options.argument));
  std::cout << documents::poison_json(request) << "\n";
  return ok();
}

Result<std::uint32_t> replica_of(const CtlOptions& options) {
  const std::string digits =
      options.argument.starts_with("dp") ? options.argument.substr(2) : options.argument;
  if (digits.empty() || digits.size() > 5 ||
      digits.find_first_not_of("0123456789") != std::string::npos ||
      std::stoul(digits) >= wire::kMaxReplicas) {
    return invalid_argument(options.command + ": expected the number of a replica, found \"" +
                            options.argument + "\"");
  }
  return static_cast<std::uint32_t>(std::stoul(digits));
}

Status run_command(const CtlOptions& options) {
  PHALANX_RETURN_IF_ERROR(check(options));
  if (options.command == "status") {
    return show_status(options);
  }
  if (options.command == "inspect") {
    return inspect(options);
  }
  if (options.command == "dump") {
    return print_dump(options);
  }
  const auto command = admin::command_named(options.command);
  if (!command) {
    return invalid_argument("unknown command \"" + options.command +
                            "\"; expected status, ping, drain, resume, restart, reload, dump, "
                            "inspect or help");
  }
  wire::AdminRequest request{*command};
  if (admin::takes_replica(*command)) {
    PHALANX_TRY(request.replica, replica_of(options));
  } else if (*command == wire::AdminCommand::kReload) {
    request.fronts = options.fronts;
    if (!options.argument.empty()) {
      request.program = std::filesystem::absolute(options.argument).string();
    }
  }
  PHALANX_RETURN_IF_ERROR(operate(options, request));
  std::cout << "ok\n";
  return ok();
}

int run(int argc, char** argv) {
  CtlOptions options;
  flags::FlagTable table = make_table(&options);
  const auto request = table.parse(flags::arguments_of(argc, argv), flags::environment_of(environ));
  Status status = request ? ok() : Status(request.error());
  const bool asks_for_help = !options.words.empty() && options.words.front() == "help";
  if (status && (*request == flags::FlagTable::Request::kHelp || asks_for_help)) {
    std::cout << table.help_text();
    return 0;
  }
  if (status && *request == flags::FlagTable::Request::kVersion) {
    std::cout << "phalanxctl " << kVersion << "\n";
    return 0;
  }
  for (const flags::FlagTable::Note& note : table.notes()) {
    if (note.is_warning) {
      std::cerr << "phalanxctl: warning: " << printable(note.text) << "\n";
    }
  }
  options.flags = table.given();
  if (!options.words.empty()) {
    options.command = options.words.front();
    options.argument = options.words.size() > 1 ? options.words.back() : "";
  }
  if (status) {
    status = run_command(options);
  }
  if (!status) {
    std::cerr << "phalanxctl: " << printable(status.error().message()) << "\n";
    return error_traits(status.error().code()).exit_status;
  }
  return 0;
}

}  // namespace

}  // namespace phalanx::app

int main(int argc, char** argv) {
  phalanx::os::prepare_program();
  try {
    const int status = phalanx::app::run(argc, argv);
    if (!std::cout.flush() && status == 0) {
      std::fputs("phalanxctl: standard output cannot be written\n", stderr);
      return phalanx::error_traits(phalanx::Code::kResourceExhausted).exit_status;
    }
    return status;
  } catch (const std::exception& error) {
    const phalanx::Error told = phalanx::error_of(error);
    std::fprintf(stderr, "phalanxctl: %s\n", phalanx::printable(told.message()).c_str());
    return phalanx::error_traits(told.code()).exit_status;
  }
}
