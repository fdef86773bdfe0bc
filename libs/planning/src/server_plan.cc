// SPDX-License-Identifier: Apache-2.0
#include "phalanx/planning/server_plan.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/base/utf8.h"
#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/checkpoint/config_record.h"
#include "phalanx/checkpoint/model_folder.h"
#include "phalanx/checkpoint/model_path.h"
#include "phalanx/engine/scheduler.h"
#include "phalanx/kernels/isa.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/model/weight_arena.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/os/machine.h"
#include "phalanx/step/limits.h"
#include "phalanx/tokenizer/chat_template.h"
#include "phalanx/tokenizer/tokenizer.h"
#include "phalanx/tokenizer/tokenizer_source.h"
#include "phalanx/wire/codec.h"

namespace phalanx::planning {

namespace {

constexpr std::uintmax_t kMaxTemplateBytes = std::uintmax_t{1} << 20;

// A regular file only: others may have no end, or never begin.
Result<std::string> read_template(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return error ? errno_error(path, error.value()) : not_found(path + ": no such file");
  }
  const std::uintmax_t bytes =
      std::filesystem::is_regular_file(path, error) ? std::filesystem::file_size(path, error) : 0;
  if (error || bytes == 0 || bytes > kMaxTemplateBytes) {
    return invalid_argument(path + ": expected a file with a chat template of at most " +
                            std::to_string(kMaxTemplateBytes) + " bytes, found " +
                            (bytes == 0 ? "none" : std::to_string(bytes) + " bytes"));
  }
  std::string text(bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad() || text.empty()) {
    return failed_precondition(path + ": cannot be read");
  }
  if (!is_valid_utf8(text)) {
    return invalid_argument(path + ": chat template: expected UTF-8");
  }
  return text;
}

Status check_template(const tokenizer::Tokenizer& tokenizer,
                      const std::string& source,
                      const std::string& origin) {
  if (source.empty()) {
    return ok();
  }
  auto compiled = tokenizer::compile_chat_template(tokenizer, source);
  return compiled ? ok() : Status(std::move(compiled).error().with(origin));
}

// Fronts make theirs from the same bytes; here it is made to refuse what cannot be served, and
// given back for what it says of the model.
Result<std::unique_ptr<tokenizer::Tokenizer>> read_texts(const wire::PlannerBootstrap& asked,
                                                         checkpoint::ModelFolder& folder,
                                                         std::uint32_t model_tokens,
                                                         std::string* bytes) {
  PHALANX_TRY(tokenizer::TokenizerSource source,
              checkpoint::tokenizer_source(folder, model_tokens));
  const std::string& given = asked.chat_template_path;
  if (!given.empty()) {
    // It stands for all of the model's own.
    PHALANX_TRY(const std::string text, read_template(given));
    std::visit([&](auto& content) { content.templates = {text, ""}; }, source.content);
  }
  *bytes = tokenizer::to_bytes(source);
  PHALANX_TRY(std::unique_ptr<tokenizer::Tokenizer> tokenizer, tokenizer::load_tokenizer(source));
  PHALANX_RETURN_IF_ERROR(check_template(
      *tokenizer, tokenizer->chat_template(), given.empty() ? "the model's chat template" : given));
  PHALANX_RETURN_IF_ERROR(
      check_template(*tokenizer, tokenizer->tool_use_template(), "the model's tool_use template"));
  return tokenizer;
}

Result<model::MemoryPlan> plan_memory(const wire::PlannerBootstrap& asked,
                                      const checkpoint::ModelConfig& config) {
  model::MemoryRequest request;
  request.replicas = asked.dp;
  request.ranks = asked.tp;
  request.cpus = static_cast<std::uint32_t>(os::allowed_cpus().size());
  if (asked.limits.max_model_len > config.max_position) {
    const std::string limit(checkpoint::limit_of_positions(config));
    return invalid_argument(
        "--max-model-len: expected at most " + std::to_string(config.max_position) +
        (limit.empty() ? ", which the model allows" : ", the model's " + limit) + ", found " +
        std::to_string(asked.limits.max_model_len));
  }
  request.limits = asked.limits;
  request.kv_memory_bytes = asked.kv_memory_bytes;
  PHALANX_TRY(const std::uint64_t available, os::available_memory_bytes());
  request.available_bytes = model::memory_to_plan(available, config, request);
  auto plan = model::plan_memory(config, request);
  return plan ? std::move(plan) : Result<model::MemoryPlan>(std::move(plan).error().with("memory"));
}

void put_memory(const model::MemoryPlan& memory, std::uint32_t replicas, wire::ServerPlan* plan) {
  plan->limits = memory.limits;
  plan->weight_bytes = memory.weights;
  for (const model::RankMemory& rank : memory.ranks) {
    plan->rank_bytes = std::max<std::uint64_t>(plan->rank_bytes, rank.total());
  }
  for (const model::MemoryPlan::Row& row : memory.rows(replicas)) {
    plan->memory.emplace_back(row.what, row.bytes);
  }
}

// What a replica would refuse is refused before one is started.
Status check_limits(const wire::ServerPlan& plan) {
  engine::SchedulerOptions scheduler;
  scheduler.limits = plan.limits;
  scheduler.vocab_size = plan.vocab;
  return engine::validate(scheduler);
}

Status put_defaults(const checkpoint::GenerationDefaults& defaults,
                    const tokenizer::Tokenizer& tokenizer,
                    wire::ServerPlan* plan) {
  step::SamplingParams& sampling = plan->default_sampling;
  sampling.temperature = defaults.temperature;
  sampling.top_k = defaults.top_k;
  sampling.top_p = defaults.top_p;
  sampling.min_p = defaults.min_p;
  sampling.repetition_penalty = defaults.repetition_penalty;
  // What replicas would refuse in every request is refused once, before there are any.
  if (Status fits = wire::check(sampling); !fits) {
    return std::move(fits).error().with("the model's generation defaults");
  }
  PHALANX_TRY(plan->end_tokens, checkpoint::end_tokens(defaults, tokenizer));
  return ok();
}

std::string summary_of(const checkpoint::ModelConfig& config) {
  std::ostringstream out;
  out << config.model_type << ", " << config.layers << " layers, hidden " << config.hidden << ", "
      << config.heads << " heads, " << config.kv_heads << " KV heads, vocabulary " << config.vocab;
  if (const auto limit = checkpoint::limit_of_positions(config); !limit.empty()) {
    out << ", at most the " << config.max_position << " tokens of its " << limit;
  }
  return out.str();
}

}  // namespace

Result<Planned> make_plan(const wire::PlannerBootstrap& asked) {
  if (Status status = checkpoint::check_model_path(asked.model_path); !status) {
    return std::move(status).error().with("--model");
  }
  Planned made;
  wire::ServerPlan& plan = made.plan;
  checkpoint::ModelFolder folder(asked.model_path);
  PHALANX_TRY(const checkpoint::Checkpoint checkpoint, checkpoint::Checkpoint::open(folder));
  if (checkpoint.unused().count > 0) {
    made.warnings.push_back(checkpoint.unused().text());
  }
  checkpoint::ModelConfig config = checkpoint.config();
  config.formats = checkpoint.formats_for(asked.quantization);
  if (std::string note = checkpoint.codes_left(asked.quantization); !note.empty()) {
    made.warnings.push_back(std::move(note));
  }
  PHALANX_TRY(const std::unique_ptr<tokenizer::Tokenizer> tokenizer,
              read_texts(asked, folder, config.vocab, &made.tokenizer_source));
  if (!tokenizer->left_out().empty()) {
    made.warnings.push_back(checkpoint::left_out_text(*tokenizer));
  }
  PHALANX_RETURN_IF_ERROR(checkpoint::check_tokens(*tokenizer, config.vocab));
  if (auto shard = model::plan_shard(config, 0, asked.tp); !shard) {
    return std::move(shard).error().with("--tensor-parallel-size");
  }
  PHALANX_TRY(const model::MemoryPlan memory, plan_memory(asked, config));
  put_memory(memory, asked.dp, &plan);
  plan.vocab = config.vocab;
  PHALANX_RETURN_IF_ERROR(check_limits(plan));
  PHALANX_TRY(const kernels::Isa isa, kernels::resolve_isa(asked.isa));
  plan.isa = kernels::isa_name(isa);
  plan.model_config = checkpoint::to_record(config);
  plan.structure_hash = checkpoint.structure_hash();
  plan.file_bytes = checkpoint.file_bytes();
  plan.model_name = checkpoint::model_name_of(asked.model_path);
  plan.model_summary = summary_of(config);
  plan.weight_summary = checkpoint::describe(config.formats);
  plan.tokenizer_bytes = made.tokenizer_source.size();
  PHALANX_RETURN_IF_ERROR(put_defaults(checkpoint.generation(), *tokenizer, &plan));
  if (Status fits = wire::check(wire::ControlRecord(plan)); !fits) {
    return std::move(fits).error().with("what the leader is told of the model");
  }
  return made;
}

}  // namespace phalanx::planning
