// SPDX-License-Identifier: Apache-2.0
#include "config_limits.h"

#include <algorithm>
#include <string>

#include "phalanx/kernels/rope.h"

namespace phalanx::checkpoint {

Status check_multiple(std::string_view field, std::uint32_t value, std::uint32_t of) {
  if (value % of != 0) {
    return invalid_argument(std::string(field) + ": expected a multiple of " + std::to_string(of) +
                            ", found " + std::to_string(value));
  }
  return ok();
}

Status finish_rope(ModelConfig& config, Counted counted) {
  const kernels::RopeConfig& rope = config.rope;
  if (const auto made = kernels::make_rope_frequencies(rope); !made) {
    return made.error();
  }
  double reached = config.max_position;
  if (rope.scaling == kernels::RopeScaling::kYarn) {
    reached = std::max(reached, rope.original_max_position_embeddings * rope.factor);
  } else if (rope.scaling == kernels::RopeScaling::kLinear && counted == Counted::kBeforeScaling) {
    reached *= rope.factor;
  }
  config.max_position =
      static_cast<std::uint32_t>(std::min(reached, static_cast<double>(kMaxPosition)));
  return ok();
}

void keep_within_window(double window, ModelConfig& config) {
  if (window > 0 && window < config.max_position) {
    config.sliding_window = static_cast<std::uint32_t>(window);
    config.max_position = config.sliding_window;
  }
}

void keep_within_chunk(double chunk, ModelConfig& config) {
  if (chunk < config.max_position) {
    config.attention_chunk = static_cast<std::uint32_t>(chunk);
    config.max_position = config.attention_chunk;
  }
}

step::RealRule rule_of_default(const step::RealRule& rule) {
  return rule.name == step::kTopPRule.name ? step::RealRule{rule.name, 0, rule.high} : rule;
}

Status check_shape(const ModelConfig& config, const ShapeNames& names) {
  constexpr std::uint32_t kWidthMultiple = kernels::kDotBlock;
  constexpr std::uint32_t kHeadDimMultiple = kernels::kStripColumns;
  PHALANX_RETURN_IF_ERROR(check_multiple(names.hidden, config.hidden, kWidthMultiple));
  PHALANX_RETURN_IF_ERROR(check_multiple(names.head_dim, config.head_dim, kHeadDimMultiple));
  PHALANX_RETURN_IF_ERROR(check_multiple(names.intermediate, config.intermediate, kWidthMultiple));
  if (config.heads % config.kv_heads != 0) {
    return invalid_argument(std::string(names.heads) + ": expected a multiple of " +
                            std::string(names.kv_heads) + " " + std::to_string(config.kv_heads) +
                            ", found " + std::to_string(config.heads));
  }
  const std::uint32_t most_heads = kMaxInputs / config.head_dim;
  if (config.heads_per_group() > most_heads) {
    return invalid_argument(std::string(names.heads) + ": expected at most " +
                            std::to_string(most_heads) + " for each of " +
                            std::string(names.kv_heads) + " " + std::to_string(config.kv_heads) +
                            ", found " + std::to_string(config.heads));
  }
  return ok();
}

}  // namespace phalanx::checkpoint
