// SPDX-License-Identifier: Apache-2.0
#include "phalanx/settings/options.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "phalanx/dispatch/policy.h"
#include "phalanx/keeper/doors.h"
#include "phalanx/obs/log.h"
#include "phalanx/step/choices.h"
#include "phalanx/step/isa.h"
#include "phalanx/step/limits.h"
#include "phalanx/wire/front_journal.h"
#include "phalanx/wire/limits.h"

#include "dump_folder.h"
#include "option_checks.h"
#include "refused_flags.h"

namespace phalanx::settings {

namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();
constexpr double kWeekSeconds = 604800.0;
constexpr double kLeastCommentSeconds = 0.1;

// Past that a front that has all of them, as the others have died, has no places in its journal,
// and with it they would end. Who waits for a place or is refused takes one, too.
constexpr std::int64_t kMaxConnections = wire::kMaxJournalPlaces - keeper::Doors::kMaxRefused;

// Header of a request, and what is read with it.
constexpr std::int64_t kHeadBytes = std::int64_t{64} << 10;

void add_model_flags(flags::FlagTable* table, Options* o) {
  table->group("Model");
  table->add_text("model",
                  &o->model,
                  "PATH",
                  "Hugging Face folder or GGUF file to serve; may also be the first argument");
  table->add_text(
      "served-model-name",
      &o->served_model_name,
      "NAMES",
      "Names in the API, separated by commas: requests may use each, answers and metrics "
      "have the first; the folder's name if not given");
  table->add_amount(
      "max-model-len",
      &o->max_model_len,
      0,
      1 << 20,
      flags::Unit::kTokens,
      "Most tokens of prompt and answer together; 0 takes what the model allows, and the "
      "KV cache and the memory hold");
  table->add_choice("quantization",
                    &o->quantization,
                    step::quantization_choices(),
                    "Format that weight matrices are packed in and computed with; auto takes what "
                    "the files have: each matrix of a GGUF file with the codes and scales of "
                    "its blocks, or bf16: in all layers if a matrix of one has no codes");
  table->add_text("chat-template",
                  &o->chat_template_path,
                  "FILE",
                  "Jinja chat template instead of the model's own");
}

void add_topology_flags(flags::FlagTable* table, Options* o) {
  table->group("Topology");
  table->add_int("data-parallel-size,dp",
                 &o->dp,
                 1,
                 wire::kMaxReplicas,
                 "Replicas, each with its own scheduler and KV cache");
  table->add_int("tensor-parallel-size,tp",
                 &o->tp,
                 1,
                 wire::kMaxRanks,
                 "Rank processes that share the work of one replica");
  table->add_text("devices",
                  &o->devices,
                  "SETS",
                  "Core sets, one per rank, separated by |, as in 0-1|2-3; consecutive ranks form "
                  "a replica. Derived from "
                  "the allowed cores if not given");
  std::vector<std::string> policies(std::begin(dispatch::kPolicyNames),
                                    std::end(dispatch::kPolicyNames));
  table->add_choice("routing-policy,load-balance-method",
                    &o->routing_policy,
                    std::move(policies),
                    "How a request finds its replica");
}

void add_engine_flags(flags::FlagTable* table, Options* o) {
  table->group("Engine");
  table->add_int("max-num-seqs",
                 &o->max_num_seqs,
                 1,
                 step::kMaxSequencesPerStep,
                 "Most sequences that a replica runs at the same time");
  table->add_amount("max-num-batched-tokens",
                    &o->max_num_batched_tokens,
                    1,
                    step::kMaxRowsPerStep,
                    flags::Unit::kTokens,
                    "Most tokens in one step of a replica; a longer prompt is computed in chunks");
  table->add_int("max-step-ms",
                 &o->max_step_ms,
                 0,
                 600'000,
                 "Longest step, in milliseconds, in which prompts go on beside running answers; as "
                 "many of their tokens as fit by what steps were measured to take, at least 32. 0 "
                 "is no limit");
  table->add_amount(
      "kv-cache-memory-bytes",
      &o->kv_cache_memory_bytes,
      0,
      kMaxInt,
      flags::Unit::kBytes,
      "Memory for the KV cache of one replica; 0 derives it from the machine and --max-num-seqs");
  table->add_int(
      "num-kv-blocks,num-gpu-blocks-override",
      &o->num_kv_blocks,
      0,
      step::kMaxKvBlocks,
      "Blocks of 32 tokens in the KV cache of one replica; 0 derives them from the memory");
  table->add_choice("kv-cache-dtype",
                    &o->kv_cache_dtype,
                    step::kv_format_choices(),
                    "Format of keys and values in the KV cache; int8 holds about twice as many "
                    "tokens in the same memory. auto and bfloat16 are bf16");
  table->add_switch("prefix-cache,enable-prefix-caching",
                    &o->prefix_cache,
                    "Keep the KV of full blocks and share it between requests that begin alike; no "
                    "answer depends on it");
  table->add_choice("runner",
                    &o->runner,
                    step::runner_choices(),
                    "What a rank computes with; sim keeps the whole protocol and sleeps for a "
                    "modelled time, to measure the "
                    "control plane");
  table->add_int(
      "sim-step-us", &o->sim_step_us, 0, 60'000'000, "Modelled time of a step, with --runner sim");
  table->add_int("sim-token-us",
                 &o->sim_token_us,
                 0,
                 60'000'000,
                 "Modelled time per token, with --runner sim");
  table->add_choice(
      "isa",
      &o->isa,
      step::isa_choices(),
      "Instruction set of the kernels; all give the same bits (" + step::isa_needs() + ")");
}

void add_http_flags(flags::FlagTable* table, Options* o) {
  table->group("HTTP");
  table->add_text("host", &o->host, "ADDRESS", "Address to listen on");
  table->add_int("port", &o->port, 0, 65535, "Port to listen on; 0 takes a free one and prints it");
  table->add_int("fronts", &o->fronts, 1, 64, "Processes that speak HTTP; one more is spare");
  table->add_int("max-num-queued-reqs",
                 &o->max_num_queued_reqs,
                 1,
                 1 << 20,
                 "Most requests in the server; more are answered 503 with Retry-After");
  table->add_amount("max-num-queued-tokens",
                    &o->max_num_queued_tokens,
                    1,
                    kMaxInt,
                    flags::Unit::kTokens,
                    "Most tokens of all requests in the server, prompt and answer");
  table->add_int("max-connections",
                 &o->max_connections,
                 1,
                 kMaxConnections,
                 "Most open client connections, at most " + std::to_string(kMaxConnections) +
                     ": a front can go on with as many of others");
  table->add_int(
      "max-connections-per-address",
      &o->max_connections_per_address,
      0,
      kMaxConnections,
      "Most open connections of one client address (of IPv6, one /64); 0 is a quarter of "
      "--max-connections, and no limit for loopback");
  table->add_text(
      "allowed-hosts",
      &o->allowed_hosts,
      "NAMES",
      "Names, separated by commas, that requests may address the server by; * is any. On "
      "a loopback --host the loopback names are allowed besides, and nothing else if "
      "not given; elsewhere any name is");
  table->add_text("allowed-origins",
                  &o->allowed_origins,
                  "ORIGINS",
                  "Origins of web pages, separated by commas, that may use the server from another "
                  "origin, as in https://chat.example.org, or all of a scheme other than http and "
                  "https, as in vscode-webview://*; * is any");
  table->add_switch(
      "strict-api",
      &o->strict_api,
      "Refuse requests with fields that are not known, instead of ignoring the fields");
}

// What clients may make the server hold, and how long they hear nothing.
void add_client_flags(flags::FlagTable* table, Options* o) {
  table->add_amount("client-memory-bytes",
                    &o->client_memory_bytes,
                    1 << 20,
                    std::int64_t{1} << 42,  // some journals of as much are mapped at once
                    flags::Unit::kBytes,
                    "Memory for requests, their bodies, journals and answers that clients have not "
                    "taken; beyond it nothing more is read from clients. Each front has its part");
  table->add_amount("max-body-bytes",
                    &o->max_body_bytes,
                    1024,
                    std::int64_t{1} << 30,
                    flags::Unit::kBytes,
                    "Largest request body");
  table->add_amount(
      "stream-buffer-bytes",
      &o->stream_buffer_bytes,
      4096,
      std::int64_t{1} << 30,
      flags::Unit::kBytes,
      "Most bytes kept for a client that reads its stream too slowly; past it the stream is cut");
  table->add_double("keep-alive-interval",
                    &o->keep_alive_comment_s,
                    0.0,
                    3600.0,
                    "Seconds between comments in a stream that has nothing to say; 0: none");
}

void add_supervision_flags(flags::FlagTable* table, Options* o) {
  table->group("Supervision");
  table->add_text(
      "restart-intensity",
      &o->restart_intensity,
      "N/TIME",
      "A replica that ends more than N times within TIME is not started again, and one of which "
      "more ranks end than that ends with them; fronts always are started again");
  table->add_double("start-timeout",
                    &o->start_timeout_s,
                    1.0,
                    kWeekSeconds,
                    "Seconds that a part of a start may take without progress");
  table->add_text("dump-dir",
                  &o->dump_dir,
                  "FOLDER",
                  "Where requests that end what computes them are written down, the newest 16; "
                  "phalanx/poisoned below $XDG_STATE_HOME, ~/.local/state or else /tmp/phalanx-UID "
                  "if not given");
  table->add_double("shutdown-timeout",
                    &o->shutdown_timeout_s,
                    0.0,
                    kWeekSeconds,
                    "Seconds that SIGTERM waits for open requests");
  table->add_switch(
      "core-dumps",
      &o->core_dumps,
      "Let processes that crash leave core dumps, as far as ulimit -c allows; weights "
      "and KV are never in them");
  flags::Flag wrapper;
  wrapper.names = {"worker-wrapper"};
  wrapper.value_name = "SELECTOR=COMMAND";
  wrapper.help =
      "Run the selected workers under a command (rank:dp0.tp1=valgrind, rank, "
      "replica:dp0=perf record -o FILE, loader); may be given several times, the last that selects "
      "a worker counts";
  wrapper.repeatable = true;
  wrapper.set = [o](const std::string& text) -> Status {
    PHALANX_TRY(fleet::WorkerWrapper parsed, fleet::parse_worker_wrapper(text));
    o->wrappers.push_back(std::move(parsed));
    return ok();
  };
  table->add(std::move(wrapper));
  flags::Flag log_level;
  log_level.names = {"log-level"};
  log_level.value_name = "trace|debug|info|warning|error";
  log_level.help = "Least level logged";
  log_level.default_text = o->log_level;
  log_level.set = [o](const std::string& text) -> Status {
    PHALANX_TRY(const obs::LogLevel level, obs::parse_log_level(text));
    o->log_level = obs::to_string(level);
    return ok();
  };
  table->add(std::move(log_level));
}

void add_offline_flags(flags::FlagTable* table, Options* o) {
  table->group("Offline generation");
  table->add_texts("prompt",
                   &o->prompts,
                   "TEXT",
                   "Generate for this prompt and exit; may be given several times");
  table->add_switch(
      "apply-chat-template",
      &o->apply_chat_template,
      "Send each --prompt as a user's message through the chat template, if the model has one");
  table->add_amount("max-tokens",
                    &o->max_tokens,
                    1,
                    1 << 20,
                    flags::Unit::kTokens,
                    "Most tokens to generate for a --prompt");
  table->add_double("temperature",
                    &o->temperature,
                    -1.0,
                    2.0,
                    "Temperature for --prompt; -1 is the model's default");
  table->add_int("seed", &o->seed, -1, kMaxInt, "Random seed for --prompt; -1 draws one");
}

}  // namespace

flags::FlagTable make_flag_table(Options* options) {
  flags::FlagTable table(
      "phalanxd",
      "phalanxd serves a language model from data-parallel × tensor-parallel process groups.",
      "PHALANX_");
  table.positional("model");
  table.allow_environment("PHALANX_LOAD_");  // of phalanx-load
  add_model_flags(&table, options);
  add_topology_flags(&table, options);
  add_engine_flags(&table, options);
  add_http_flags(&table, options);
  add_client_flags(&table, options);
  add_supervision_flags(&table, options);
  add_offline_flags(&table, options);
  refuse_foreign_flags(&table);
  table.section(
      "Worker processes",
      "phalanx-worker worker planner|loader|replica|rank is how a server starts the processes "
      "below it: the leader starts planner, loader and replicas, each replica its ranks. They are "
      "told over an inherited socket what to do, and refuse to be started by hand.");
  return table;
}

Result<flags::FlagTable::Request> parse_options(
    flags::FlagTable* table,
    Options* options,
    const std::vector<std::string>& arguments,
    const std::map<std::string, std::string>& environment) {
  PHALANX_TRY(const flags::FlagTable::Request request, table->parse(arguments, environment));
  if (request != flags::FlagTable::Request::kRun) {
    return request;
  }
  if (options->model.empty()) {
    return invalid_argument(
        "--model is missing: expected the path of a Hugging Face folder or of a GGUF file");
  }
  while (options->model.size() > 1 && options->model.back() == '/') {
    options->model.pop_back();
  }
  PHALANX_RETURN_IF_ERROR(check_values(*options));
  PHALANX_RETURN_IF_ERROR(check_given(*options, table->given()));
  if (step::runner_of(options->runner) != step::Runner::kSim &&
      (options->sim_step_us > 0 || options->sim_token_us > 0)) {
    return invalid_argument("--sim-step-us and --sim-token-us need --runner sim");
  }
  if (options->kv_cache_memory_bytes > 0 && options->num_kv_blocks > 0) {
    return invalid_argument(
        "--kv-cache-memory-bytes and --num-kv-blocks say the same: give one of them");
  }
  if (options->keep_alive_comment_s > 0 && options->keep_alive_comment_s < kLeastCommentSeconds) {
    return invalid_argument(
        "--keep-alive-interval: expected 0, or a number from 0.1 to 3600, found " +
        std::to_string(options->keep_alive_comment_s));
  }
  if (options->max_model_len == 1) {
    return invalid_argument(
        "--max-model-len: expected 0, or at least 2, a prompt and an answer, found 1");
  }
  if (options->max_num_batched_tokens < options->max_num_seqs) {
    return invalid_argument("--max-num-batched-tokens: expected at least --max-num-seqs (" +
                            std::to_string(options->max_num_seqs) +
                            "), so that every sequence can decode in one step, found " +
                            std::to_string(options->max_num_batched_tokens));
  }
  const std::int64_t memory_needed = options->fronts * 4 * (options->max_body_bytes + kHeadBytes);
  if (options->prompts.empty() && options->client_memory_bytes < memory_needed) {
    return invalid_argument("--client-memory-bytes: expected at least " +
                            std::to_string(memory_needed) +
                            ", so that each front has room for bodies of --max-body-bytes, found " +
                            std::to_string(options->client_memory_bytes));
  }
  auto restarts = supervise::parse_restart_intensity(options->restart_intensity);
  if (!restarts) {
    return std::move(restarts).error().with("--restart-intensity");
  }
  options->restarts = *restarts;
  options->dump_dir = dump_folder(options->dump_dir, environment);
  return request;
}

}  // namespace phalanx::settings
