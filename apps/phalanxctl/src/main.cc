// SPDX-License-Identifier: Apache-2.0
// phalanxctl: looks at a running phalanxd and operates it, over its local admin socket; and looks
// at models on disk.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <thread>
#include <utility>

#include "phalanx/admin/admin_call.h"
#include "phalanx/admin/commands.h"
#include "phalanx/base/printable.h"
#include "phalanx/base/version.h"
#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/checkpoint/inspect.h"
#include "phalanx/documents/poison_document.h"
#include "phalanx/documents/status_document.h"
#include "phalanx/engine/scheduler_options.h"
#include "phalanx/flags/flag_table.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/model/needs.h"
#include "phalanx/os/machine.h"
#include "phalanx/os/standard_files.h"
#include "phalanx/step/choices.h"
#include "phalanx/wire/limits.h"
#include "phalanx/wire/rank_messages.h"

#include "inspect_view.h"

namespace phalanx::app {

namespace {

struct CtlOptions {
  std::vector<std::string> words;  // the command and its argument, as given
  std::vector<std::string> flags;  // on the command line
  std::string command = "status";
  std::string argument;  // of the command: a replica, or a path
  std::int64_t port = 8000;
  std::int64_t uid = static_cast<std::int64_t>(::geteuid());
  bool json = false;
  bool fronts = false;
  bool watch = false;
  double interval_s = 1.0;
  double timeout_s = 10.0;
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t max_model_len = 0;
  std::int64_t max_num_seqs = step::kDefaultMaxNumSeqs;
  std::int64_t max_num_batched_tokens = step::kDefaultMaxNumBatchedTokens;
  std::int64_t num_kv_blocks = 0;
  std::string kv_cache_dtype = "bf16";
  std::string quantization = "auto";
};

// Spelled and defaulted as for phalanxd.
void add_topology(flags::FlagTable* table, CtlOptions* o) {
  table->add_int("data-parallel-size,dp", &o->dp, 1, wire::kMaxReplicas, "inspect: replicas");
  table->add_int("tensor-parallel-size,tp", &o->tp, 1, 64, "inspect: ranks of each replica");
  table->add_int("max-model-len",
                 &o->max_model_len,
                 0,
                 1 << 20,
                 "inspect: most tokens of a sequence; 0 takes what the model allows");
  table->add_int("max-num-seqs", &o->max_num_seqs, 1, 4096, "inspect: sequences of a replica");
  table->add_int("max-num-batched-tokens",
                 &o->max_num_batched_tokens,
                 1,
                 1 << 16,
                 "inspect: most tokens in one step of a replica");
  table->add_int("num-kv-blocks",
                 &o->num_kv_blocks,
                 0,
                 1 << 24,
                 "inspect: KV blocks of a replica; 0 derives them from this machine's memory");
  table->add_choice("kv-cache-dtype",
                    &o->kv_cache_dtype,
                    step::kv_format_choices(),
                    "inspect: format of the KV cache");
  table->add_choice("quantization",
                    &o->quantization,
                    step::quantization_choices(),
                    "inspect: format of the weights; auto takes what the files have");
}

flags::FlagTable make_table(CtlOptions* o) {
  flags::FlagTable table(
      "phalanxctl",
      "phalanxctl looks at a running phalanxd and operates it.\n\n"
      "commands: status (if none is given) | ping | drain REPLICA | resume REPLICA | restart "
      "REPLICA | reload [--fronts [PROGRAM]] | dump FILE | inspect MODEL\n\n"
      "reload replaces the replicas and the fronts one after the other, as SIGHUP does; with "
      "--fronts "
      "only these, which then run PROGRAM, or what lies where theirs was found.\n\n"
      "dump prints what a server has written down of a request that ended what computed it, a file "
      "of its --dump-dir, as JSON.\n\n"
      "inspect says what the model at a path is and what phalanxd would need to serve it, and "
      "starts "
      "nothing. It ends with 0 when the model can be served as asked, else with the status that "
      "phalanxd would end with.",
      "PHALANXCTL_");
  table.words(&o->words, 2, "[COMMAND [ARGUMENT]]");
  table.add_int(
      "port", &o->port, 1, 65535, "Port that the server listens on: it names the admin socket");
  table.add_int("uid",
                &o->uid,
                0,
                4294967295,
                "User that runs the server; only that user and root are heard");
  table.add_switch("json", &o->json, "Print the status, or what inspect finds, as JSON");
  table.add_switch("fronts", &o->fronts, "reload: only the fronts");
  table.add_switch("watch", &o->watch, "Print the status again and again, until interrupted");
  table.add_double("interval", &o->interval_s, 0.1, 3600, "Seconds between two prints of --watch");
  table.add_double("timeout", &o->timeout_s, 0.1, 3600, "Seconds to wait for an answer");
  add_topology(&table, o);
  return table;
}

Result<wire::AdminAnswer> call(const CtlOptions& options, const wire::AdminRequest& request) {
  const admin::AdminAddress server{static_cast<std::uint32_t>(options.uid),
                                   static_cast<std::uint16_t>(options.port)};
  return admin::admin_call(server, request, from_seconds(options.timeout_s));
}

Status print_status(const CtlOptions& options) {
  do {
    PHALANX_TRY(const wire::AdminAnswer answer, call(options, {wire::AdminCommand::kStatus}));
    const auto* const status = std::get_if<wire::ServerStatus>(&answer);
    if (status == nullptr) {
      PHALANX_RETURN_IF_ERROR(admin::outcome_of(answer));
      return data_loss("the server's status could not be read: it sent none");
    }
    const std::string shown =
        options.json ? documents::status_json_in_ascii(*status) : documents::status_table(*status);
    // On a terminal the picture is redrawn in place.
    const bool redraw = options.watch && !options.json && ::isatty(STDOUT_FILENO) != 0;
    std::cout << (redraw ? "\x1b[H\x1b[2J" : "") << shown << (options.json ? "\n" : "")
              << std::flush;
    if (options.watch) {
      std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
    }
  } while (options.watch && std::cout);
  return ok();
}

// What a replica would refuse of the limits that memory leaves.
Status check_limits(const step::RankLimits& limits, std::uint32_t vocab) {
  engine::SchedulerOptions scheduler;
  scheduler.limits = limits;
  scheduler.vocab_size = vocab;
  return engine::validate(scheduler);
}

model::MemoryRequest memory_request_of(const CtlOptions& options) {
  model::MemoryRequest request;
  request.replicas = static_cast<std::uint32_t>(options.dp);
  request.ranks = static_cast<std::uint32_t>(options.tp);
  request.limits.max_model_len = static_cast<std::uint32_t>(options.max_model_len);
  request.limits.max_num_seqs = static_cast<std::uint32_t>(options.max_num_seqs);
  request.limits.max_num_batched_tokens =
      static_cast<std::uint32_t>(options.max_num_batched_tokens);
  request.limits.kv_blocks = static_cast<std::uint32_t>(options.num_kv_blocks);
  request.limits.kv_format = step::kv_format_of(options.kv_cache_dtype);
  return request;
}

// The first obstacle, after everything was printed, is the outcome.
Status inspect(const CtlOptions& options) {
  if (options.argument.empty()) {
    return invalid_argument("inspect: expected the path of a model, found none");
  }
  if (options.max_num_batched_tokens < options.max_num_seqs) {
    return invalid_argument("--max-num-batched-tokens: expected at least --max-num-seqs (" +
                            std::to_string(options.max_num_seqs) + "), found " +
                            std::to_string(options.max_num_batched_tokens));
  }
  model::MemoryRequest request = memory_request_of(options);
  PHALANX_TRY(const std::uint64_t available, os::available_memory_bytes());
  request.available_bytes = model::memory_to_plan(
      available, request.limits.kv_blocks, 1 + request.replicas * (1 + request.ranks));
  PHALANX_TRY(checkpoint::Inspection found,
              checkpoint::inspect(options.argument, options.quantization));
  const std::optional<model::MemoryPlan> memory = model::needs_of(found, request);
  if (memory) {
    if (Status status = check_limits(memory->limits, found.config->vocab); !status) {
      found.obstacles.push_back({"limits", std::move(status).error()});
    }
  }
  std::cout << (options.json ? inspection_json(found, memory, request) + "\n"
                             : inspection_text(found, memory, request));
  if (!found.obstacles.empty()) {
    const checkpoint::Obstacle& first = found.obstacles.front();
    return Error(first.error).with(first.part);
  }
  return ok();
}

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

// What would be ignored was meant for something.
Status check_argument(const CtlOptions& options) {
  if (options.words.size() < 2) {
    return ok();
  }
  if (options.command == "reload" && !options.fronts) {
    return invalid_argument("reload: a program needs --fronts, found \"" + options.argument +
                            "\" without");
  }
  if (options.command == "status" || options.command == "ping") {
    return invalid_argument(options.command + ": expected no argument, found \"" +
                            options.argument + "\"");
  }
  return ok();
}

bool has_effect(const std::string& command, const std::string& flag) {
  if (flag == "config") {
    return true;  // of what it sets each has an effect there or not
  }
  if (flag == "json") {
    return command == "status" || command == "inspect" || command == "dump";
  }
  if (flag == "fronts") {
    return command == "reload";
  }
  if (flag == "watch" || flag == "interval") {
    return command == "status";
  }
  if (flag == "port" || flag == "uid" || flag == "timeout") {
    return command != "inspect" && command != "dump";
  }
  return command == "inspect";
}

Status check_flags(const CtlOptions& options) {
  if (options.command != "inspect" && options.command != "dump" &&
      !admin::command_named(options.command)) {
    return ok();  // it is refused itself
  }
  for (const std::string& flag : options.flags) {
    if (!has_effect(options.command, flag)) {
      return invalid_argument(options.command +
                              ": expected only flags that have an effect there, "
                              "found --" +
                              flag);
    }
  }
  return ok();
}

Status run_command(const CtlOptions& options) {
  PHALANX_RETURN_IF_ERROR(check_argument(options));
  PHALANX_RETURN_IF_ERROR(check_flags(options));
  if (options.command == "status") {
    return print_status(options);
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
                            "\"; expected status, ping, drain, resume, restart, reload, dump or "
                            "inspect");
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
  PHALANX_TRY(const wire::AdminAnswer answer, call(options, request));
  PHALANX_RETURN_IF_ERROR(admin::outcome_of(answer));
  std::cout << "ok\n";
  return ok();
}

int run(int argc, char** argv) {
  CtlOptions options;
  flags::FlagTable table = make_table(&options);
  const auto request = table.parse(flags::arguments_of(argc, argv), flags::environment_of(environ));
  Status status = request ? ok() : Status(request.error());
  if (status && *request == flags::FlagTable::Request::kHelp) {
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
    std::fprintf(stderr, "phalanxctl: unexpected: %s\n", phalanx::printable(error.what()).c_str());
    return 70;
  }
}
