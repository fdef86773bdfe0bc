// SPDX-License-Identifier: Apache-2.0
#include "gguf_rope.h"

#include <algorithm>
#include <array>

#include "config_limits.h"

namespace phalanx::checkpoint {
namespace {

using kernels::RopeScaling;

constexpr const char* kDivisorTensor = "rope_freqs.weight";
constexpr std::string_view kScalingPrefix = "rope.scaling.";
constexpr std::string_view kOriginalLength = "rope.scaling.original_context_length";

// A key that would change the arithmetic in a way that is not computed here.
Status refuse_unknown_scaling(const GgufKeys& keys) {
  constexpr std::array<std::string_view, 9> kKnown = {"type",
                                                      "factor",
                                                      "original_context_length",
                                                      "finetuned",
                                                      "attn_factor",
                                                      "yarn_beta_fast",
                                                      "yarn_beta_slow",
                                                      "yarn_ext_factor",
                                                      "yarn_attn_factor"};
  const std::string prefix = keys.name(kScalingPrefix);
  for (const auto& [key, value] : keys.all().values()) {
    if (key.starts_with(prefix) &&
        std::find(kKnown.begin(), kKnown.end(), key.substr(prefix.size())) == kKnown.end()) {
      return unimplemented("key \"" + std::string(key.substr(0, 128)) +
                           "\": expected none, found " + gguf::describe(value) + ": not supported");
    }
  }
  // They scale what YaRN does, or all that is rotated; 1 is the formula as published.
  for (const std::string_view key : {"rope.scaling.attn_factor",
                                     "rope.scaling.yarn_ext_factor",
                                     "rope.scaling.yarn_attn_factor"}) {
    PHALANX_TRY(const double value, keys.number_or(key, -kMaxRopeFactor, kMaxRopeFactor, 1));
    if (value != 1) {
      return unimplemented("key \"" + keys.name(key) + "\": expected 1, found " +
                           gguf::number_text(value) + ": not supported");
    }
  }
  return ok();
}

Result<RopeScaling> scaling_type(const GgufKeys& keys) {
  constexpr std::string_view kKey = "rope.scaling.type";
  if (!keys.has(kKey)) {
    return keys.has("rope.scaling.factor") ? RopeScaling::kLinear : RopeScaling::kNone;
  }
  PHALANX_TRY(const std::string_view type, keys.text(kKey));
  if (type == "none") {
    return RopeScaling::kNone;
  }
  if (type == "linear") {
    return RopeScaling::kLinear;
  }
  if (type == "yarn") {
    return RopeScaling::kYarn;
  }
  return unimplemented(
      "key \"" + keys.name(kKey) + "\": rope scaling \"" + std::string(type.substr(0, 64)) +
      "\" is not supported; supported are none, linear, yarn, and the divisors of " +
      kDivisorTensor);
}

// Writers put 0 for a factor that is not given; a position over 1 is that position.
Status read_factor(const GgufKeys& keys, kernels::RopeConfig& rope) {
  constexpr std::string_view kKey = "rope.scaling.factor";
  if (rope.scaling == RopeScaling::kLinear) {
    PHALANX_TRY(const double factor, keys.number_or(kKey, 0, kMaxRopeFactor, 0));
    if (factor == 0) {
      rope.scaling = RopeScaling::kNone;
      return ok();
    }
  }
  if (rope.scaling != RopeScaling::kNone) {
    PHALANX_TRY(rope.factor, keys.number(kKey, 1, kMaxRopeFactor));
  }
  return ok();
}

Status read_yarn(const GgufKeys& keys, ModelConfig& config) {
  kernels::RopeConfig& rope = config.rope;
  PHALANX_TRY(const std::uint32_t original,
              keys.positive_or(kOriginalLength, kMaxPosition, config.max_position));
  rope.original_max_position_embeddings = original;
  PHALANX_TRY(rope.beta_fast,
              keys.number_or("rope.scaling.yarn_beta_fast", 1e-3, 1e6, rope.beta_fast));
  PHALANX_TRY(rope.beta_slow,
              keys.number_or("rope.scaling.yarn_beta_slow", 1e-3, 1e6, rope.beta_slow));
  return ok();
}

Status read_divisors(const GgufModel& model, kernels::RopeConfig& rope) {
  const GgufModel::Place place = model.find(kDivisorTensor);
  if (place.tensor == nullptr) {
    return ok();
  }
  const gguf::Tensor& tensor = *place.tensor;
  const std::string about =
      model.name_of(place.file) + ": tensor \"" + std::string(kDivisorTensor) + "\": ";
  if (tensor.type != gguf::TensorType::kF32 || tensor.elements() != rope.head_dim / 2) {
    return data_loss(about + "expected " + std::to_string(rope.head_dim / 2) + " F32, found " +
                     std::to_string(tensor.elements()) + " " +
                     std::string(gguf::traits_of(tensor.type).name));
  }
  if (rope.scaling != RopeScaling::kNone) {
    return unimplemented(about + "expected no other rope scaling beside it, found one");
  }
  rope.scaling = RopeScaling::kDivisors;
  rope.divisors.resize(rope.head_dim / 2);
  gguf::decode(tensor.type, tensor.bytes, rope.divisors);
  for (const float divisor : rope.divisors) {
    if (!(divisor >= 1.0F && static_cast<double>(divisor) <= kMaxRopeFactor)) {
      return data_loss(about + "expected numbers from 1 to " + gguf::number_text(kMaxRopeFactor) +
                       ", found " + gguf::number_text(static_cast<double>(divisor)));
    }
  }
  return ok();
}

// context_length is the context that the model was trained on, with its scale if it has one, unless
// the file says that it is the one from before.
Result<Counted> counted_by(const GgufKeys& keys, const ModelConfig& config) {
  if (config.rope.scaling != RopeScaling::kLinear) {
    return Counted::kBeforeScaling;
  }
  PHALANX_TRY(const double original, keys.number_or(kOriginalLength, 0, kMaxPosition, 0));
  return original == config.max_position ? Counted::kBeforeScaling : Counted::kBehindScaling;
}

}  // namespace

Status read_gguf_rope(const GgufKeys& keys, const GgufModel& model, ModelConfig& config) {
  kernels::RopeConfig& rope = config.rope;
  rope.head_dim = config.head_dim;
  PHALANX_TRY(const std::uint32_t rotated,
              keys.positive_or("rope.dimension_count", kMaxWidth, config.head_dim));
  if (rotated != config.head_dim) {
    return unimplemented("key \"" + keys.name("rope.dimension_count") + "\": expected " +
                         std::to_string(config.head_dim) + ", the width of a head, found " +
                         std::to_string(rotated) + ": not supported");
  }
  PHALANX_TRY(rope.theta, keys.number_or("rope.freq_base", kLeastTheta, kMaxTheta, rope.theta));
  PHALANX_RETURN_IF_ERROR(refuse_unknown_scaling(keys));
  PHALANX_TRY(rope.scaling, scaling_type(keys));
  PHALANX_RETURN_IF_ERROR(read_factor(keys, rope));
  if (rope.scaling == RopeScaling::kYarn) {
    PHALANX_RETURN_IF_ERROR(read_yarn(keys, config));
  }
  PHALANX_RETURN_IF_ERROR(read_divisors(model, rope));
  PHALANX_TRY(const Counted counted, counted_by(keys, config));
  return finish_rope(config, counted);
}

}  // namespace phalanx::checkpoint
