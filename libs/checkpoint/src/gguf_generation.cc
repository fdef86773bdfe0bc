// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "phalanx/step/sampling_rules.h"

#include "config_limits.h"
#include "gguf_config.h"
#include "gguf_keys.h"

namespace phalanx::checkpoint {
namespace {

// A default is what a request could say.
Status read_default(const GgufKeys& keys,
                    std::string_view key,
                    const step::RealRule& rule,
                    float& out) {
  if (!keys.has(key)) {
    return ok();
  }
  PHALANX_TRY(const double value, keys.all().number(keys.name(key)));
  const step::RealRule allowed = rule_of_default(rule);
  if (!allowed.allows(step::narrowed(value))) {
    return invalid_argument("key \"" + keys.name(key) + "\": expected " + step::range_of(allowed) +
                            ", found " + gguf::number_text(value));
  }
  out = step::narrowed(std::max(value, rule.low));
  return ok();
}

Result<GenerationDefaults> read_defaults(const GgufKeys& keys, const ModelConfig& config) {
  GenerationDefaults defaults = default_generation(config);
  PHALANX_RETURN_IF_ERROR(read_default(keys, "temp", step::kTemperatureRule, defaults.temperature));
  PHALANX_RETURN_IF_ERROR(read_default(keys, "top_p", step::kTopPRule, defaults.top_p));
  PHALANX_RETURN_IF_ERROR(read_default(keys, "min_p", step::kMinPRule, defaults.min_p));
  PHALANX_RETURN_IF_ERROR(read_default(
      keys, "penalty_repeat", step::kRepetitionPenaltyRule, defaults.repetition_penalty));
  if (keys.has("top_k")) {
    PHALANX_TRY(const std::int64_t top_k, keys.all().integer(keys.name("top_k"), -1, kMaxVocab));
    defaults.top_k = top_k < 0 ? 0 : static_cast<std::int32_t>(top_k);
  }
  return defaults;
}

}  // namespace

Result<GenerationDefaults> read_gguf_generation(const GgufModel& model, const ModelConfig& config) {
  const GgufKeys keys(model.metadata(), "general.sampling");
  auto defaults = read_defaults(keys, config);
  if (!defaults) {
    return std::move(defaults).error().with(model.name_of(0));
  }
  return defaults;
}

}  // namespace phalanx::checkpoint
