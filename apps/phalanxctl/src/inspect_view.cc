// SPDX-License-Identifier: Apache-2.0
#include "inspect_view.h"

#include <array>
#include <cstdio>
#include <sstream>

#include <nlohmann/json.hpp>

#include "phalanx/base/bytes_text.h"
#include "phalanx/base/printable.h"
#include "phalanx/step/choices.h"

namespace phalanx::app {

namespace {

using checkpoint::Inspection;

// "134.5 M", "8.03 G"
std::string count_text(std::uint64_t count) {
  constexpr std::array<const char*, 5> kUnits = {"", " k", " M", " G", " T"};
  auto value = static_cast<double>(count);
  std::size_t unit = 0;
  while (value >= 1000.0 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  constexpr std::size_t kMost = 32;
  std::array<char, kMost> text{};
  std::snprintf(text.data(), kMost, unit == 0 ? "%.0f%s" : "%.4g%s", value, kUnits[unit]);
  return text.data();
}

void print_config(const checkpoint::ModelConfig& config, std::ostringstream& out) {
  out << "  shape      " << config.layers << " layers, hidden " << config.hidden << ", "
      << config.heads << " heads, " << config.kv_heads << " KV heads of " << config.head_dim
      << ", MLP " << config.intermediate << ", vocabulary " << config.vocab
      << (config.tied_head ? ", tied head" : "") << "\n";
  out << "  served as  " << checkpoint::describe(config.formats) << "\n";
}

void print_memory(const model::MemoryPlan& plan,
                  const model::MemoryRequest& request,
                  std::ostringstream& out) {
  out << "  memory     for --dp " << request.replicas << " --tp " << request.ranks << ", "
      << plan.limits.max_num_seqs << " sequences, " << plan.limits.kv_blocks
      << " KV blocks of 32 tokens in " << step::kv_format_name(plan.limits.kv_format) << "\n";
  out << "    weights  " << bytes_text(plan.weights) << ", shared by all ranks\n";
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const model::RankMemory& memory = plan.ranks[rank];
    out << "    rank tp" << rank << " " << bytes_text(memory.total()) << ": KV "
        << bytes_text(memory.kv) << ", scratch " << bytes_text(memory.scratch) << ", other "
        << bytes_text(memory.sequence_table + memory.result_ring + memory.exchange + memory.heap)
        << "\n";
  }
  out << "    total    " << bytes_text(plan.total) << "\n";
}

nlohmann::ordered_json config_json(const checkpoint::ModelConfig& config) {
  return {{"model_type", config.model_type},
          {"layers", config.layers},
          {"hidden", config.hidden},
          {"heads", config.heads},
          {"kv_heads", config.kv_heads},
          {"head_dim", config.head_dim},
          {"intermediate", config.intermediate},
          {"vocab", config.vocab},
          {"tied_head", config.tied_head},
          {"sliding_window", config.sliding_window},
          {"attention_chunk", config.attention_chunk},
          {"served_as", checkpoint::describe(config.formats)}};
}

nlohmann::ordered_json memory_json(const model::MemoryPlan& plan,
                                   const model::MemoryRequest& request) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const model::RankMemory& rank : plan.ranks) {
    ranks.push_back({{"kv", rank.kv},
                     {"scratch", rank.scratch},
                     {"sequence_table", rank.sequence_table},
                     {"result_ring", rank.result_ring},
                     {"exchange", rank.exchange},
                     {"heap", rank.heap},
                     {"total", rank.total()}});
  }
  return {{"data_parallel_size", request.replicas},
          {"tensor_parallel_size", request.ranks},
          {"max_model_len", plan.limits.max_model_len},
          {"max_num_seqs", plan.limits.max_num_seqs},
          {"max_num_batched_tokens", plan.limits.max_num_batched_tokens},
          {"kv_blocks", plan.limits.kv_blocks},
          {"kv_cache_dtype", step::kv_format_name(plan.limits.kv_format)},
          {"weights", plan.weights},
          {"ranks", std::move(ranks)},
          {"total", plan.total}};
}

}  // namespace

std::string inspection_text(const Inspection& inspection,
                            const std::optional<model::MemoryPlan>& memory,
                            const model::MemoryRequest& request) {
  std::ostringstream out;
  out << printable(inspection.path) << "\n";
  out << "  format     " << printable(inspection.format) << ", " << inspection.weight_files
      << (inspection.weight_files == 1 ? " weight file\n" : " weight files\n");
  out << "  model      " << printable(inspection.architecture)
      << (inspection.name.empty() ? "" : ", \"" + printable(inspection.name) + "\"") << ", "
      << count_text(inspection.parameters) << " parameters in "
      << bytes_text(inspection.weight_bytes) << "\n";
  if (inspection.config) {
    print_config(*inspection.config, out);
  }
  for (const auto& [name, use] : inspection.types) {
    out << "  type       " << printable(name) << ": " << use.tensors << " tensors, "
        << count_text(use.elements) << " parameters, " << bytes_text(use.bytes) << "\n";
  }
  if (inspection.context_length) {
    out << "  context    " << *inspection.context_length << " tokens";
    if (inspection.config && !checkpoint::limit_of_positions(*inspection.config).empty()) {
      out << ", of which the " << inspection.config->max_position << " of the "
          << checkpoint::limit_of_positions(*inspection.config) << " are served";
    }
    out << "\n";
  }
  out << "  tokenizer  "
      << (inspection.tokenizer.empty() ? "none" : printable(inspection.tokenizer))
      << (inspection.has_chat_template ? ", with a chat template" : ", no chat template") << "\n";
  for (const std::string& warning : inspection.warnings) {
    out << "  warning    " << printable(warning) << "\n";
  }
  if (memory) {
    print_memory(*memory, request, out);
  }
  for (const checkpoint::Obstacle& obstacle : inspection.obstacles) {
    out << "  not served " << printable(obstacle.part) << ": "
        << printable(obstacle.error.message()) << "\n";
  }
  if (inspection.obstacles.empty()) {
    out << "  can be served\n";
  }
  return out.str();
}

std::string inspection_json(const Inspection& inspection,
                            const std::optional<model::MemoryPlan>& memory,
                            const model::MemoryRequest& request) {
  nlohmann::ordered_json types = nlohmann::ordered_json::object();
  for (const auto& [name, use] : inspection.types) {
    types[name] = {{"tensors", use.tensors}, {"parameters", use.elements}, {"bytes", use.bytes}};
  }
  nlohmann::ordered_json obstacles = nlohmann::ordered_json::array();
  for (const checkpoint::Obstacle& obstacle : inspection.obstacles) {
    obstacles.push_back({{"part", obstacle.part},
                         {"code", std::string(error_traits(obstacle.error.code()).name)},
                         {"message", obstacle.error.message()}});
  }
  nlohmann::ordered_json json = {{"path", inspection.path},
                                 {"format", inspection.format},
                                 {"weight_files", inspection.weight_files},
                                 {"architecture", inspection.architecture},
                                 {"name", inspection.name},
                                 {"parameters", inspection.parameters},
                                 {"weight_bytes", inspection.weight_bytes},
                                 {"types", std::move(types)},
                                 {"context_length", nullptr},
                                 {"tokenizer", inspection.tokenizer},
                                 {"chat_template", inspection.has_chat_template},
                                 {"config", nullptr},
                                 {"unused_tensors", inspection.unused.count},
                                 {"warnings", inspection.warnings},
                                 {"memory", nullptr},
                                 {"supported", inspection.obstacles.empty()},
                                 {"obstacles", std::move(obstacles)}};
  if (inspection.context_length) {
    json["context_length"] = *inspection.context_length;
  }
  if (inspection.config) {
    json["config"] = config_json(*inspection.config);
  }
  if (memory) {
    json["memory"] = memory_json(*memory, request);
  }
  // A name in a file may hold any bytes: what is no UTF-8 is replaced, what is no ASCII escaped.
  return json.dump(2, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace phalanx::app
