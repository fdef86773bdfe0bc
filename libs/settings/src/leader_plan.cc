// SPDX-License-Identifier: Apache-2.0
#include "phalanx/settings/leader_plan.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <variant>

#include "phalanx/base/version.h"
#include "phalanx/checkpoint/config_record.h"
#include "phalanx/checkpoint/model_folder.h"
#include "phalanx/engine/scheduler.h"
#include "phalanx/fleet/worker_command.h"
#include "phalanx/keeper/front_journal.h"
#include "phalanx/kernels/isa.h"
#include "phalanx/model/kv_layout.h"
#include "phalanx/model/weight_arena.h"
#include "phalanx/os/machine.h"
#include "phalanx/step/limits.h"
#include "phalanx/tokenizer/tokenizer_source.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/front_journal.h"
#include "phalanx/wire/limits.h"
#include "phalanx/wire/rank_messages.h"

namespace phalanx::settings {

namespace {

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return not_found(path + ": no such file");
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<std::unique_ptr<tokenizer::ChatTemplate>> compile(const tokenizer::Tokenizer& tokenizer,
                                                         const std::string& source,
                                                         const std::string& origin) {
  if (source.empty()) {
    return std::unique_ptr<tokenizer::ChatTemplate>();
  }
  Result<tokenizer::ChatTemplate> compiled = tokenizer::compile_chat_template(tokenizer, source);
  if (!compiled) {
    return std::move(compiled).error().with(origin);
  }
  return std::make_unique<tokenizer::ChatTemplate>(*std::move(compiled));
}

// Fronts make theirs from the same bytes; here it is made to refuse what cannot be served.
Status load_texts(const Options& options, checkpoint::ModelFolder& folder, LeaderPlan* plan) {
  PHALANX_TRY(tokenizer::TokenizerSource source, checkpoint::tokenizer_source(folder));
  const std::string& given = options.chat_template_path;
  if (!given.empty()) {
    // It stands for all of the model's own.
    PHALANX_TRY(const std::string text, read_text(given));
    std::visit([&](auto& content) { content.templates = {text, ""}; }, source.content);
  }
  plan->tokenizer_source = tokenizer::to_bytes(source);
  PHALANX_TRY(plan->tokenizer, tokenizer::load_tokenizer(source));
  const tokenizer::Tokenizer& tokenizer = *plan->tokenizer;
  PHALANX_TRY(plan->chat_template,
              compile(tokenizer,
                      tokenizer.chat_template(),
                      given.empty() ? "the model's chat template" : given));
  PHALANX_TRY(plan->tool_template,
              compile(tokenizer, tokenizer.tool_use_template(), "the model's tool_use template"));
  return ok();
}

Status plan_cores(const Options& options, LeaderPlan* plan) {
  const auto ranks = static_cast<std::size_t>(options.dp * options.tp);
  const os::CpuList allowed = os::allowed_cpus();
  if (options.devices.empty()) {
    plan->rank_cpus = os::default_core_sets(ranks, allowed);
    return ok();
  }
  auto sets = os::parse_core_sets(options.devices);
  if (!sets) {
    return std::move(sets).error().with("--devices");
  }
  if (Status status = os::check_core_sets(*sets, ranks, allowed); !status) {
    return std::move(status).error().with("--devices");
  }
  plan->rank_cpus = *std::move(sets);
  return ok();
}

// Blocks that --kv-cache-memory-bytes pays for, in each replica.
Result<std::uint32_t> blocks_for_bytes(const Options& options,
                                       const checkpoint::ModelConfig& config) {
  PHALANX_TRY(const std::uint64_t block_bytes,
              model::replica_block_bytes(config,
                                         static_cast<std::uint32_t>(options.tp),
                                         model::kv_format_of(options.kv_cache_dtype)));
  const std::uint64_t blocks =
      static_cast<std::uint64_t>(options.kv_cache_memory_bytes) / block_bytes;
  if (blocks == 0) {
    return invalid_argument(
        "--kv-cache-memory-bytes " + std::to_string(options.kv_cache_memory_bytes) +
        " is less than one KV block: expected at least " + std::to_string(block_bytes));
  }
  PHALANX_TRY(const std::uint64_t available, os::available_memory_bytes());
  if (static_cast<std::uint64_t>(options.kv_cache_memory_bytes) >
      available / static_cast<std::uint64_t>(options.dp)) {
    return resource_exhausted("no memory for the KV cache: --kv-cache-memory-bytes asks for " +
                              std::to_string(options.kv_cache_memory_bytes) + " bytes in each of " +
                              std::to_string(options.dp) + " replicas, " +
                              std::to_string(available) + " are available in all");
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, 1U << 24));
}

Status plan_memory(const Options& options, LeaderPlan* plan) {
  const checkpoint::ModelConfig& config = plan->config;
  model::MemoryRequest request;
  request.replicas = static_cast<std::uint32_t>(options.dp);
  request.ranks = static_cast<std::uint32_t>(options.tp);
  if (options.max_model_len > config.max_position) {
    return invalid_argument(
        "--max-model-len: expected at most " + std::to_string(config.max_position) +
        ", which the model allows, found " + std::to_string(options.max_model_len));
  }
  request.limits.max_model_len = static_cast<std::uint32_t>(options.max_model_len);
  request.limits.max_num_seqs = static_cast<std::uint32_t>(options.max_num_seqs);
  request.limits.max_num_batched_tokens =
      static_cast<std::uint32_t>(options.max_num_batched_tokens);
  request.limits.kv_blocks = static_cast<std::uint32_t>(options.num_kv_blocks);
  request.limits.kv_format = model::kv_format_of(options.kv_cache_dtype);
  if (options.kv_cache_memory_bytes > 0) {
    PHALANX_TRY(request.limits.kv_blocks, blocks_for_bytes(options, config));
  }
  PHALANX_TRY(const std::uint64_t available, os::available_memory_bytes());
  request.available_bytes = model::memory_to_plan(
      available, request.limits.kv_blocks, 1 + request.replicas * (1 + request.ranks));
  PHALANX_TRY(plan->memory, model::plan_memory(config, request));
  return ok();
}

// What a replica would refuse is refused before one is started.
Status check_limits(const LeaderPlan& plan) {
  engine::SchedulerOptions scheduler;
  scheduler.limits = plan.memory.limits;
  scheduler.vocab_size = plan.config.vocab;
  return engine::validate(scheduler);
}

// What the model's configuration names, and the tokenizer's own end token, which some models give
// nowhere else.
std::vector<TokenId> end_tokens(const checkpoint::GenerationDefaults& defaults,
                                const tokenizer::Tokenizer& tokenizer) {
  std::set<TokenId> result(defaults.eos.begin(), defaults.eos.end());
  if (const std::optional<TokenId> id = tokenizer.eos_id()) {
    result.insert(*id);
  }
  return {result.begin(), result.end()};
}

// What replicas would refuse in every request is refused once, before there are any.
Status check_defaults(const serving::ServedModel& model) {
  if (Status fits = wire::check(model.default_sampling); !fits) {
    return std::move(fits).error().with("the model's generation defaults");
  }
  if (model.end_tokens.size() > step::kMaxEndTokens) {
    return invalid_argument("the model names " + std::to_string(model.end_tokens.size()) +
                            " end-of-sequence tokens; at most " +
                            std::to_string(step::kMaxEndTokens) + " are possible");
  }
  return ok();
}

Status describe_model(const Options& options,
                      const checkpoint::GenerationDefaults& defaults,
                      LeaderPlan* plan) {
  serving::ServedModel& model = plan->model;
  model.name = options.served_model_name.empty() ? checkpoint::model_name_of(options.model)
                                                 : options.served_model_name;
  model.root = options.model;
  model.created = static_cast<std::int64_t>(unix_seconds());
  model.max_model_len = plan->memory.limits.max_model_len;
  model.vocab = plan->config.vocab;
  model.tokenizer = plan->tokenizer.get();
  model.chat_template = plan->chat_template.get();
  model.tool_template = plan->tool_template.get();
  model.default_sampling.temperature = defaults.temperature;
  model.default_sampling.top_k = defaults.top_k;
  model.default_sampling.top_p = defaults.top_p;
  model.default_sampling.min_p = defaults.min_p;
  model.default_sampling.repetition_penalty = defaults.repetition_penalty;
  model.end_tokens = end_tokens(defaults, *plan->tokenizer);
  return check_defaults(model);
}

// What is equal for all replicas and ranks.
wire::ModelPlan model_plan_of(const Options& options, const LeaderPlan& plan) {
  wire::ModelPlan result;
  result.model_config = checkpoint::to_record(plan.config);
  result.runner = options.runner;
  result.isa = plan.isa;
  result.tp = static_cast<std::uint32_t>(options.tp);
  result.limits = plan.memory.limits;
  result.sim_step_us = static_cast<std::uint64_t>(options.sim_step_us);
  result.sim_token_us = static_cast<std::uint64_t>(options.sim_token_us);
  return result;
}

std::string without_blanks(const std::string& list) {
  std::string result;
  for (const std::string& part : split_list(list)) {
    result += (result.empty() ? "" : ",") + part;
  }
  return result;
}

}  // namespace

Result<LeaderPlan> make_leader_plan(const Options& options) {
  if (Status status = checkpoint::check_model_path(options.model); !status) {
    return std::move(status).error().with("--model");
  }
  LeaderPlan plan;
  checkpoint::ModelFolder folder(options.model);
  PHALANX_TRY(const checkpoint::Checkpoint checkpoint, checkpoint::Checkpoint::open(folder));
  plan.config = checkpoint.config();
  plan.config.formats = checkpoint.formats_for(options.quantization);
  PHALANX_RETURN_IF_ERROR(load_texts(options, folder, &plan));
  if (plan.tokenizer->vocab_size() > plan.config.vocab) {
    return invalid_argument("the tokenizer has " + std::to_string(plan.tokenizer->vocab_size()) +
                            " tokens and the model only " + std::to_string(plan.config.vocab) +
                            ": they do not belong together");
  }
  PHALANX_RETURN_IF_ERROR(plan_cores(options, &plan));
  if (auto shard = model::plan_shard(plan.config, 0, static_cast<std::uint32_t>(options.tp));
      !shard) {
    return std::move(shard).error().with("--tensor-parallel-size");
  }
  PHALANX_RETURN_IF_ERROR(plan_memory(options, &plan));
  PHALANX_RETURN_IF_ERROR(check_limits(plan));
  PHALANX_TRY(const kernels::Isa isa, kernels::resolve_isa(options.isa));
  plan.isa = kernels::isa_name(isa);
  plan.arena_bytes = options.runner == "sim" ? 0 : model::layout_of(plan.config).bytes;
  PHALANX_RETURN_IF_ERROR(describe_model(options, checkpoint.generation(), &plan));
  return plan;
}

wire::LoaderBootstrap loader_bootstrap_of(const Options& options, const LeaderPlan& plan) {
  wire::LoaderBootstrap bootstrap;
  bootstrap.common.protocol = wire::kProtocolVersion;
  bootstrap.common.log_level = options.log_level;
  bootstrap.model_path = options.model;
  bootstrap.model_config = checkpoint::to_record(plan.config);
  bootstrap.arena_bytes = plan.arena_bytes;
  return bootstrap;
}

fleet::ReplicaStart replica_start_of(const Options& options, const LeaderPlan& plan) {
  fleet::ReplicaStart start;
  wire::ReplicaBootstrap& bootstrap = start.bootstrap;
  bootstrap.common.protocol = wire::kProtocolVersion;
  bootstrap.common.boot = Boot(os::random_u64());
  bootstrap.common.secret = os::random_u64();
  bootstrap.common.log_level = options.log_level;
  bootstrap.plan = model_plan_of(options, plan);
  bootstrap.prefix_cache = options.prefix_cache;
  bootstrap.max_step_ms = static_cast<std::uint32_t>(options.max_step_ms);
  bootstrap.restart_limit = options.restarts.limit;
  bootstrap.restart_window_ms = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(options.restarts.window).count());
  for (std::int64_t replica = 0; replica < options.dp; ++replica) {
    start.spawn.push_back(
        fleet::replica_plan(options.wrappers, ReplicaId(static_cast<std::uint32_t>(replica))));
  }
  start.rank_cpus = plan.rank_cpus;
  start.supervision.restart.intensity = options.restarts;
  start.supervision.start_timeout =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.start_timeout_s));
  return start;
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

// Of a journal, for what a front keeps beside its records. None of it is memory before it is
// written.
constexpr std::uint64_t kJournalOwnBytes = std::uint64_t{2} << 30;

// A front maps its own journal and those of the dead ones whose connections it got.
constexpr std::uint64_t kJournalAddressSpace = std::uint64_t{16} << 30;

// What a front keeps for the one behind it: nothing where addresses or files are limited.
Status plan_journal(const Options& options, wire::FrontBootstrap* bootstrap) {
  const auto connections =
      static_cast<std::uint64_t>(options.max_connections) + keeper::Doors::kRefusedMax;
  const auto places =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(connections, wire::kMaxJournalPlaces));
  const std::uint64_t bytes = keeper::FrontJournal::bytes_of(places, kJournalOwnBytes);
  PHALANX_TRY(const os::ProcessLimits limits, os::process_limits());
  if (limits.address_space_bytes >= kJournalAddressSpace && limits.file_bytes >= bytes) {
    bootstrap->journal_places = places;
    bootstrap->journal_bytes = bytes;
  }
  return ok();
}

}  // namespace

Result<keeper::FrontStart> front_start_of(const Options& options, const LeaderPlan& plan) {
  keeper::FrontStart start;
  PHALANX_TRY(const std::string program, os::program_beside("phalanx-front"));
  PHALANX_TRY(start.program, os::HeldProgram::open(program));
  start.fronts = static_cast<std::size_t>(options.fronts);
  start.start_timeout =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.start_timeout_s));
  wire::FrontBootstrap& bootstrap = start.bootstrap;
  bootstrap.common.protocol = wire::kProtocolVersion;
  bootstrap.common.log_level = options.log_level;
  bootstrap.model_name = plan.model.name;
  bootstrap.model_root = plan.model.root;
  bootstrap.created = plan.model.created;
  bootstrap.max_model_len = plan.model.max_model_len;
  bootstrap.vocab = plan.model.vocab;
  bootstrap.default_sampling = plan.model.default_sampling;
  bootstrap.end_tokens = plan.model.end_tokens;
  bootstrap.tokenizer_bytes = plan.tokenizer_source.size();
  bootstrap.max_body_bytes = static_cast<std::uint64_t>(options.max_body_bytes);
  bootstrap.stream_buffer_bytes = static_cast<std::uint64_t>(options.stream_buffer_bytes);
  bootstrap.comment_ms = static_cast<std::uint32_t>(options.keep_alive_comment_s * 1000.0);
  bootstrap.allowed_hosts = without_blanks(options.allowed_hosts);
  bootstrap.allowed_origins = without_blanks(options.allowed_origins);
  bootstrap.strict_api = options.strict_api;
  bootstrap.max_queued_reqs = static_cast<std::uint32_t>(options.max_num_queued_reqs);
  PHALANX_RETURN_IF_ERROR(plan_journal(options, &bootstrap));
  if (Status fits = wire::check(wire::ControlRecord(bootstrap)); !fits) {
    return std::move(fits).error().with("what fronts are told");
  }
  return start;
}

std::string start_summary(const Options& options, const LeaderPlan& plan) {
  const checkpoint::ModelConfig& c = plan.config;
  std::ostringstream out;
  out << "phalanxd " << kVersion << "\n";
  out << "  model      " << plan.model.name << " (" << c.model_type << ", " << c.layers
      << " layers, hidden " << c.hidden << ", " << c.heads << " heads, " << c.kv_heads
      << " KV heads, vocabulary " << c.vocab << ")\n";
  out << "  topology   " << options.dp << " replicas × " << options.tp << " ranks, cores "
      << os::format_core_sets(plan.rank_cpus) << ", routing " << options.routing_policy << "\n";
  out << "  kernels    "
      << (options.runner == "sim"
              ? "none: simulated"
              : plan.isa + ", weights " + checkpoint::describe(c.formats) + ", KV cache " +
                    std::string(model::kv_format_name(plan.memory.limits.kv_format)))
      << "\n";
  out << "  limits     " << plan.memory.limits.max_model_len << " tokens of context, "
      << plan.memory.limits.max_num_seqs << " sequences and "
      << plan.memory.limits.max_num_batched_tokens << " tokens a step, "
      << plan.memory.limits.kv_blocks << " KV blocks of 32 tokens per replica\n";
  for (const fleet::WorkerWrapper& wrapper : options.wrappers) {
    out << "  wrapped    " << wrapper.text << "; never called hung\n";
  }
  if (options.runner != "sim") {
    for (const model::MemoryPlan::Row& row :
         plan.memory.rows(static_cast<std::uint32_t>(options.dp))) {
      out << "  memory     " << row.what << ": " << model::bytes_text(row.bytes) << "\n";
    }
  }
  return out.str();
}

}  // namespace phalanx::settings
