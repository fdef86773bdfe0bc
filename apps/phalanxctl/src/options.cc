// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <algorithm>
#include <limits>

#include "phalanx/admin/commands.h"
#include "phalanx/step/limits.h"
#include "phalanx/wire/limits.h"

namespace phalanx::app {

namespace {

// Spelled and defaulted as for phalanxd.
void add_topology(flags::FlagTable* table, CtlOptions* o) {
  table->add_int("data-parallel-size,dp", &o->dp, 1, wire::kMaxReplicas, "inspect: replicas");
  table->add_int(
      "tensor-parallel-size,tp", &o->tp, 1, wire::kMaxRanks, "inspect: ranks of each replica");
  table->add_amount("max-model-len",
                    &o->max_model_len,
                    0,
                    1 << 20,
                    flags::Unit::kTokens,
                    "inspect: most tokens of a sequence; 0 takes what the model allows");
  table->add_int("max-num-seqs",
                 &o->max_num_seqs,
                 1,
                 step::kMaxSequencesPerStep,
                 "inspect: sequences of a replica");
  table->add_amount("max-num-batched-tokens",
                    &o->max_num_batched_tokens,
                    1,
                    step::kMaxRowsPerStep,
                    flags::Unit::kTokens,
                    "inspect: most tokens in one step of a replica");
  table->add_amount("kv-cache-memory-bytes",
                    &o->kv_cache_memory_bytes,
                    0,
                    std::numeric_limits<std::int64_t>::max(),
                    flags::Unit::kBytes,
                    "inspect: memory for the KV cache of a replica; 0 derives it");
  table->add_int("num-kv-blocks,num-gpu-blocks-override",
                 &o->num_kv_blocks,
                 0,
                 step::kMaxKvBlocks,
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
    return command == "status" || command == "inspect";
  }
  if (flag == "fronts") {
    return command == "reload";
  }
  if (flag == "watch" || flag == "interval") {
    return command == "status";
  }
  if (flag == "wait") {
    return command == "drain" || command == "resume" || command == "restart";
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
  const auto given = [&](const char* flag) {
    return std::find(options.flags.begin(), options.flags.end(), flag) != options.flags.end();
  };
  if (given("interval") && !options.watch) {
    return invalid_argument("--interval: expected only with --watch");
  }
  // The environment and a file may set them for another command.
  if (options.command == "inspect" && options.kv_cache_memory_bytes > 0 &&
      options.num_kv_blocks > 0) {
    return invalid_argument(
        "--kv-cache-memory-bytes and --num-kv-blocks say the same: give one of them");
  }
  return ok();
}

}  // namespace

flags::FlagTable make_table(CtlOptions* o) {
  flags::FlagTable table(
      "phalanxctl",
      "phalanxctl looks at a running phalanxd and operates it.\n\n"
      "commands: status (if none is given) | ping | drain REPLICA | resume REPLICA | restart "
      "REPLICA | reload [--fronts [PROGRAM]] | dump FILE | inspect MODEL | help\n\n"
      "drain gives a replica no new work, until resume. drain, resume and restart end when the "
      "server has taken them; with --wait when they are done: the drained replica has nothing left "
      "to do, the other is ready.\n\n"
      "reload replaces the replicas and the fronts one after the other, as SIGHUP does; with "
      "--fronts only these, which then run PROGRAM, or what lies where theirs was found.\n\n"
      "dump prints what a server has written down of a request that ended what computed it, a file "
      "of its --dump-dir, as JSON.\n\n"
      "inspect says what the model at a path is and what phalanxd would need to serve it, and "
      "starts nothing. It ends with 0 when the model can be served as asked, else with the status "
      "that phalanxd would end with.\n\n"
      "exit status: 0 done, 64 wrong usage or a model that is not supported, 65 a file or an "
      "answer that cannot be read, 66 no server or file is there, 69 the server hung up or the "
      "replica has failed, 75 not done within --timeout, the server hears too many others, or the "
      "output cannot be written, 78 refused",
      "PHALANXCTL_");
  table.words(&o->words, 2, "[COMMAND [ARGUMENT]]");
  table.add_int(
      "port", &o->port, 1, 65535, "Port that the server listens on: it names the admin socket");
  table.add_int("uid",
                &o->uid,
                0,
                4294967295,
                "User that runs the server; only that user and root are heard",
                "one's own");
  table.add_switch("json", &o->json, "Print the status, or what inspect finds, as JSON");
  table.add_switch("fronts", &o->fronts, "reload: only the fronts");
  table.add_switch("watch", &o->watch, "Print the status again and again, until interrupted");
  table.add_double("interval", &o->interval_s, 0.1, 3600, "Seconds between two prints of --watch");
  table.add_switch(
      "wait", &o->wait, "drain, resume, restart: until it is done, or --timeout is over");
  table.add_double("timeout", &o->timeout_s, 0.1, 3600, "Seconds that a command may take");
  add_topology(&table, o);
  return table;
}

Status check(const CtlOptions& options) {
  PHALANX_RETURN_IF_ERROR(check_argument(options));
  return check_flags(options);
}

}  // namespace phalanx::app
