// SPDX-License-Identifier: Apache-2.0
#include "phalanx/settings/leader_plan.h"

#include <sstream>
#include <utility>

#include "phalanx/base/bytes_text.h"
#include "phalanx/base/printable.h"
#include "phalanx/base/split_list.h"
#include "phalanx/base/utf8.h"
#include "phalanx/base/version.h"
#include "phalanx/fleet/worker_command.h"
#include "phalanx/keeper/front_journal.h"
#include "phalanx/os/cpu_topology.h"
#include "phalanx/os/machine.h"
#include "phalanx/step/choices.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/front_journal.h"
#include "phalanx/wire/limits.h"

namespace phalanx::settings {

bool is_simulated(const Options& options) {
  return step::runner_of(options.runner) == step::Runner::kSim;
}

namespace {

// What is equal for all replicas and ranks.
wire::ModelPlan model_plan_of(const Options& options, const LeaderPlan& plan) {
  wire::ModelPlan result;
  result.model_config = plan.made.model_config;
  result.runner = step::runner_of(options.runner);
  result.isa = plan.made.isa;
  result.tp = static_cast<std::uint32_t>(options.tp);
  result.limits = plan.made.limits;
  result.sim_step_us = static_cast<std::uint64_t>(options.sim_step_us);
  result.sim_token_us = static_cast<std::uint64_t>(options.sim_token_us);
  return result;
}

// What every child is told; who starts it adds the rest.
wire::ChildCommon common_of(const Options& options) {
  wire::ChildCommon common;
  common.protocol = wire::kProtocolVersion;
  common.log_level = options.log_level;
  return common;
}

std::string without_blanks(const std::string& list) {
  std::string result;
  for (const std::string& part : split_list(list)) {
    result += (result.empty() ? "" : ",") + part;
  }
  return result;
}

}  // namespace

std::uint64_t LeaderPlan::arena_bytes(const Options& options) const {
  return is_simulated(options) ? 0 : made.weight_bytes;
}

Result<wire::PlannerBootstrap> planner_bootstrap_of(const Options& options) {
  wire::PlannerBootstrap bootstrap;
  bootstrap.common = common_of(options);
  bootstrap.model_path = options.model;
  bootstrap.chat_template_path = options.chat_template_path;
  bootstrap.quantization = options.quantization;
  bootstrap.isa = options.isa;
  bootstrap.dp = static_cast<std::uint32_t>(options.dp);
  bootstrap.tp = static_cast<std::uint32_t>(options.tp);
  bootstrap.limits.max_model_len = static_cast<std::uint32_t>(options.max_model_len);
  bootstrap.limits.max_num_seqs = static_cast<std::uint32_t>(options.max_num_seqs);
  bootstrap.limits.max_num_batched_tokens =
      static_cast<std::uint32_t>(options.max_num_batched_tokens);
  bootstrap.limits.kv_blocks = static_cast<std::uint32_t>(options.num_kv_blocks);
  bootstrap.limits.kv_format = step::kv_format_of(options.kv_cache_dtype);
  bootstrap.kv_memory_bytes = static_cast<std::uint64_t>(options.kv_cache_memory_bytes);
  if (Status fits = wire::check(wire::ControlRecord(bootstrap)); !fits) {
    return std::move(fits).error().with("what the planner is told");
  }
  return bootstrap;
}

Result<std::vector<os::CpuList>> core_sets_of(const Options& options) {
  const auto ranks = static_cast<std::size_t>(options.dp * options.tp);
  const os::CpuList allowed = os::allowed_cpus();
  if (options.devices.empty()) {
    return os::default_core_sets(ranks, os::read_cpu_topology(allowed));
  }
  auto sets = os::parse_core_sets(options.devices);
  if (!sets) {
    return std::move(sets).error().with("--devices");
  }
  if (Status status = os::check_core_sets(*sets, ranks, allowed); !status) {
    return std::move(status).error().with("--devices");
  }
  return *std::move(sets);
}

namespace {

// A folder may be called anything; labels and answers are UTF-8, and of bounded length.
std::string shown_name(const std::string& name) {
  std::string shown = printable(name);
  while (shown.size() > wire::kMaxNameBytes || !is_valid_utf8(shown)) {
    shown.pop_back();
  }
  return shown;
}

}  // namespace

LeaderPlan leader_plan_of(const Options& options,
                          wire::ServerPlan made,
                          std::vector<os::CpuList> rank_cpus) {
  LeaderPlan plan;
  std::vector<std::string> names = split_list(options.served_model_name);
  plan.model_name = names.empty() ? shown_name(made.model_name) : names.front();
  if (!names.empty()) {
    plan.model_aliases.assign(names.begin() + 1, names.end());
  }
  plan.made = std::move(made);
  plan.created = static_cast<std::int64_t>(unix_seconds());
  plan.rank_cpus = std::move(rank_cpus);
  return plan;
}

os::NodeList weight_nodes_of(const LeaderPlan& plan) {
  os::CpuList cpus;
  for (const os::CpuList& set : plan.rank_cpus) {
    cpus.insert(cpus.end(), set.begin(), set.end());
  }
  return os::nodes_near(cpus.empty() ? os::allowed_cpus() : cpus);
}

wire::LoaderBootstrap loader_bootstrap_of(const Options& options, const LeaderPlan& plan) {
  wire::LoaderBootstrap bootstrap;
  bootstrap.common = common_of(options);
  bootstrap.model_path = options.model;
  bootstrap.model_config = plan.made.model_config;
  bootstrap.structure_hash = plan.made.structure_hash;
  bootstrap.tp = static_cast<std::uint32_t>(options.tp);
  bootstrap.arena_bytes = plan.arena_bytes(options);
  return bootstrap;
}

fleet::ReplicaStart replica_start_of(const Options& options,
                                     const LeaderPlan& plan,
                                     const std::string& program) {
  fleet::ReplicaStart start;
  wire::ReplicaBootstrap& bootstrap = start.bootstrap;
  bootstrap.common = common_of(options);
  bootstrap.common.boot = Boot(os::random_u64());
  bootstrap.common.secret = os::random_u64();
  bootstrap.plan = model_plan_of(options, plan);
  bootstrap.prefix_cache = options.prefix_cache;
  bootstrap.max_step_ms = static_cast<std::uint32_t>(options.max_step_ms);
  bootstrap.restart_limit = options.restarts.limit;
  bootstrap.restart_window_ms = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(options.restarts.window).count());
  for (std::int64_t replica = 0; replica < options.dp; ++replica) {
    start.spawn.push_back(fleet::replica_plan(
        options.wrappers, ReplicaId(static_cast<std::uint32_t>(replica)), program));
  }
  start.rank_cpus = plan.rank_cpus;
  start.supervision.restart.intensity = options.restarts;
  start.supervision.start_timeout = from_seconds(options.start_timeout_s);
  return start;
}

std::string names_for_fronts(const LeaderPlan& plan) {
  std::string lines = plan.model_name;
  for (const std::string& alias : plan.model_aliases) {
    lines += "\n" + alias;
  }
  return lines;
}

keeper::DoorOptions doors_of(const Options& options) {
  keeper::DoorOptions doors;
  doors.address = options.host;
  doors.port = static_cast<std::uint16_t>(options.port);
  doors.connections_max = static_cast<std::size_t>(options.max_connections);
  doors.connections_per_address_max = static_cast<std::size_t>(options.max_connections_per_address);
  return doors;
}

namespace {

// Of a journal, for what answers come to that go on beyond the bound, and for blocks that are not
// full. None of it is memory before it is written.
constexpr std::uint64_t kJournalSpareBytes = std::uint64_t{2} << 30;

// A front maps its own journal and those of the dead ones whose connections it got.
constexpr std::uint64_t kJournalsMapped = 6;

// What a front keeps for the one behind it: nothing where addresses or files are limited.
Status plan_journal(const Options& options, wire::FrontBootstrap* bootstrap) {
  const auto places = static_cast<std::uint32_t>(options.max_connections) +
                      std::uint32_t{keeper::Doors::kMaxRefused};
  const std::uint64_t bytes =
      keeper::FrontJournal::bytes_of(places, bootstrap->client_memory_bytes + kJournalSpareBytes);
  PHALANX_TRY(const os::ProcessLimits limits, os::process_limits());
  if (limits.address_space_bytes >= kJournalsMapped * bytes && limits.file_bytes >= bytes) {
    bootstrap->journal_places = places;
    bootstrap->journal_bytes = bytes;
  }
  return ok();
}

}  // namespace

Result<keeper::FrontStart> front_start_of(const Options& options, const LeaderPlan& plan) {
  keeper::FrontStart start;
  PHALANX_TRY(start.program, os::HeldProgram::beside("phalanx-front"));
  const bool has_clients = options.prompts.empty();
  start.fronts = has_clients ? static_cast<std::size_t>(options.fronts) : 1;
  start.spares = has_clients ? start.spares : 0;
  start.start_timeout = from_seconds(options.start_timeout_s);
  wire::FrontBootstrap& bootstrap = start.bootstrap;
  bootstrap.common = common_of(options);
  bootstrap.model_name = names_for_fronts(plan);
  bootstrap.model_root = options.model;
  bootstrap.created = plan.created;
  bootstrap.max_model_len = plan.made.limits.max_model_len;
  bootstrap.vocab = plan.made.vocab;
  bootstrap.default_sampling = plan.made.default_sampling;
  bootstrap.end_tokens = plan.made.end_tokens;
  bootstrap.tokenizer_bytes = plan.made.tokenizer_bytes;
  bootstrap.max_body_bytes = static_cast<std::uint64_t>(options.max_body_bytes);
  bootstrap.stream_buffer_bytes = static_cast<std::uint64_t>(options.stream_buffer_bytes);
  bootstrap.client_memory_bytes =
      static_cast<std::uint64_t>(options.client_memory_bytes / options.fronts);
  bootstrap.comment_ms = static_cast<std::uint32_t>(options.keep_alive_comment_s * 1000.0);
  bootstrap.allowed_hosts = without_blanks(options.allowed_hosts);
  bootstrap.allowed_origins = without_blanks(options.allowed_origins);
  bootstrap.strict_api = options.strict_api;
  bootstrap.max_queued_reqs = static_cast<std::uint32_t>(options.max_num_queued_reqs);
  if (has_clients) {
    PHALANX_RETURN_IF_ERROR(plan_journal(options, &bootstrap));
  }
  if (Status fits = wire::check(wire::ControlRecord(bootstrap)); !fits) {
    return std::move(fits).error().with("what fronts are told");
  }
  return start;
}

}  // namespace phalanx::settings
