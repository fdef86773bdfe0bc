// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/flags/flag_table.h"
#include "phalanx/fleet/worker_command.h"
#include "phalanx/keeper/front_start.h"
#include "phalanx/step/choices.h"
#include "phalanx/supervise/restart_policy.h"

namespace phalanx::settings {

// Everything phalanxd can be told, as given; values derived from the model or the machine are in
// LeaderPlan.
struct Options {
  // Model.
  std::string model;
  std::string served_model_name;      // names, separated by commas; empty: the folder's
  std::int64_t max_model_len = 0;     // 0: what the model allows and the KV cache holds
  std::string quantization = "auto";  // one of step::quantization_choices()

  // Topology.
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::string devices;  // "0-1|2-3", one core set per rank; empty: derived
  std::string routing_policy = "least_pending_tokens";

  // Engine.
  std::int64_t max_num_seqs = step::kDefaultMaxNumSeqs;
  std::int64_t max_num_batched_tokens = step::kDefaultMaxNumBatchedTokens;
  std::int64_t max_step_ms = 100;          // 0: no limit
  std::int64_t kv_cache_memory_bytes = 0;  // per replica; 0: derived
  std::int64_t num_kv_blocks = 0;          // per replica; 0: derived
  std::string kv_cache_dtype = "bf16";     // one of step::kv_format_choices()
  bool prefix_cache = true;
  std::string runner = "cpu";  // one of step::runner_choices()
  std::int64_t sim_step_us = 0;
  std::int64_t sim_token_us = 0;
  std::string isa = "auto";  // one of step::isa_choices()

  // HTTP.
  std::string host = "127.0.0.1";
  std::int64_t port = 8000;
  std::int64_t fronts = 1;
  std::int64_t max_num_queued_reqs = 4096;
  std::int64_t max_num_queued_tokens = std::int64_t{1} << 23;
  std::int64_t max_connections = 4096;
  std::int64_t max_connections_per_address = 0;  // 0: a quarter of them; loopback without limit
  std::string allowed_hosts;                     // "a.example,b.example:8000"
  std::string allowed_origins;
  bool strict_api = false;
  std::int64_t client_memory_bytes = std::int64_t{1} << 30;
  std::int64_t max_body_bytes = std::int64_t{8} << 20;
  std::int64_t stream_buffer_bytes = std::int64_t{1} << 20;
  double keep_alive_comment_s = 10.0;
  std::string chat_template_path;

  // Supervision.
  std::string restart_intensity = "5/60s";
  supervise::RestartIntensity restarts;  // what that says
  double start_timeout_s = 600.0;
  std::string dump_dir;  // after parsing a folder
  double shutdown_timeout_s = 30.0;
  std::vector<fleet::WorkerWrapper> wrappers;  // of --worker-wrapper, in their order
  bool core_dumps = false;

  // Logs.
  std::string log_level = "info";  // as obs::to_string() has it

  // Offline generation.
  std::vector<std::string> prompts;
  bool apply_chat_template = true;
  std::int64_t max_tokens = 256;
  double temperature = -1.0;  // -1: the model's own default
  std::int64_t seed = -1;     // < 0: drawn
};

// The flag table of phalanxd over `options`, which must outlive it.
[[nodiscard]] flags::FlagTable make_flag_table(Options* options);

// Reads all sources, and checks what single flags hold and what needs more than one of them.
// Errors: kInvalidArgument, kUnimplemented (a known flag of other servers that is not supported),
// each naming the flag.
[[nodiscard]] Result<flags::FlagTable::Request> parse_options(
    flags::FlagTable* table,
    Options* options,
    const std::vector<std::string>& arguments,
    const std::map<std::string, std::string>& environment);

// What they say about the prompts of the command line.
// Errors: kInvalidArgument if they are more than a front is given.
[[nodiscard]] Result<keeper::Prompts> prompts_of(const Options& options);

}  // namespace phalanx::settings
