// SPDX-License-Identifier: Apache-2.0
#include "config_limits.h"
#include "gguf_config.h"
#include "gguf_keys.h"

namespace phalanx::checkpoint {
namespace {

Status read_float(
    const GgufKeys& keys, std::string_view key, double least, double most, float& out) {
  PHALANX_TRY(const double value, keys.number_or(key, least, most, static_cast<double>(out)));
  out = static_cast<float>(value);
  return ok();
}

Result<GenerationDefaults> read_defaults(const GgufKeys& keys, const ModelConfig& config) {
  GenerationDefaults defaults = default_generation(config);
  PHALANX_RETURN_IF_ERROR(read_float(keys, "temp", 0, 100, defaults.temperature));
  PHALANX_RETURN_IF_ERROR(read_float(keys, "top_p", 1e-6, 1, defaults.top_p));
  PHALANX_RETURN_IF_ERROR(read_float(keys, "min_p", 0, 1, defaults.min_p));
  PHALANX_RETURN_IF_ERROR(
      read_float(keys, "penalty_repeat", 1e-3, 1e3, defaults.repetition_penalty));
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
