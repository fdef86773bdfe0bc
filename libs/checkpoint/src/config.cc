// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/config.h"

#include <bit>
#include <cmath>

#include "phalanx/base/hash.h"
#include "phalanx/json/fields.h"
#include "phalanx/step/sampling_rules.h"

#include "architecture.h"
#include "config_limits.h"

namespace phalanx::checkpoint {
namespace {

using kernels::RopeConfig;
using kernels::RopeScaling;

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

Status read_optional(
    const json::Fields& fields, std::string_view field, double least, double most, double& out) {
  if (fields.has(field)) {
    PHALANX_TRY(out, fields.number(field, least, most));
  }
  return ok();
}

// Fields that some readers compute with and others, Transformers among them, do not know.
Status refuse_unless_one(const json::Fields& fields, std::string_view field) {
  constexpr double kMost = 1e6;
  double value = 1;
  PHALANX_RETURN_IF_ERROR(read_optional(fields, field, -kMost, kMost, value));
  if (value != 1) {
    return unimplemented(fields.name_of(field) + ": expected 1, found " + std::to_string(value) +
                         ": not supported");
  }
  return ok();
}

// vLLM computes with the first in any model. The others are those of Granite: a folder of one under
// another name would be served as another model.
Status refuse_multipliers(const json::Fields& fields, const ModelConfig& config) {
  for (const char* field :
       {"logit_scale", "embedding_multiplier", "residual_multiplier", "logits_scaling"}) {
    PHALANX_RETURN_IF_ERROR(refuse_unless_one(fields, field));
  }
  constexpr std::string_view kAttention = "attention_multiplier";
  constexpr double kRounded = 1e-6;
  const double usual = 1 / std::sqrt(static_cast<double>(config.head_dim));
  double value = usual;
  PHALANX_RETURN_IF_ERROR(read_optional(fields, kAttention, 0, 1e6, value));
  if (std::abs(value / usual - 1) > kRounded) {
    return unimplemented(fields.name_of(kAttention) + ": expected " + std::to_string(usual) +
                         ", as of any head of " + std::to_string(config.head_dim) + ", found " +
                         std::to_string(value) + ": not supported");
  }
  return ok();
}

Status refuse_false(const json::Fields& fields, std::string_view field) {
  if (!fields.has(field)) {
    return ok();
  }
  PHALANX_TRY(const bool value, fields.boolean(field));
  return value ? ok()
               : Status(unimplemented(fields.name_of(field) +
                                      ": expected true, found false: not supported"));
}

// Queries that grow with their position, as those of Llama 4 and Ministral 3.
Status refuse_scaled_queries(const json::Fields& fields, std::string_view field) {
  return fields.has(field) ? Status(unimplemented(fields.name_of(field) +
                                                  ": expected none, found one: not supported"))
                           : ok();
}

Result<RopeScaling> rope_type(const json::Fields& fields) {
  const std::string_view key = fields.has("rope_type") ? "rope_type" : "type";
  if (!fields.has(key)) {
    if (fields.has("factor")) {
      return invalid_argument(fields.name_of("rope_type") +
                              ": expected one beside factor, found none");
    }
    return RopeScaling::kNone;
  }
  PHALANX_TRY(const std::string_view name, fields.text(key));
  if (name == "default") {
    return RopeScaling::kNone;
  }
  if (name == "linear") {
    return RopeScaling::kLinear;
  }
  if (name == "llama3") {
    return RopeScaling::kLlama3;
  }
  if (name == "yarn") {
    return RopeScaling::kYarn;
  }
  return unimplemented(fields.name_of(key) + ": rope type \"" + std::string(name) +
                       "\" is not supported; supported are default, linear, llama3, yarn");
}

Status read_llama3(const json::Fields& fields, RopeConfig& rope) {
  PHALANX_TRY(rope.low_freq_factor, fields.number("low_freq_factor", 1e-3, 1e3));
  PHALANX_TRY(rope.high_freq_factor, fields.number("high_freq_factor", 1e-3, 1e3));
  PHALANX_TRY(rope.original_max_position_embeddings,
              fields.number("original_max_position_embeddings", 1, kMaxPosition));
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    return invalid_argument(
        fields.name_of("high_freq_factor") + ": expected more than low_freq_factor " +
        std::to_string(rope.low_freq_factor) + ", found " + std::to_string(rope.high_freq_factor));
  }
  return ok();
}

Status read_yarn(const json::Fields& fields, std::uint32_t max_position, RopeConfig& rope) {
  rope.original_max_position_embeddings = max_position;
  PHALANX_RETURN_IF_ERROR(read_optional(fields,
                                        "original_max_position_embeddings",
                                        1,
                                        kMaxPosition,
                                        rope.original_max_position_embeddings));
  PHALANX_RETURN_IF_ERROR(read_optional(fields, "beta_fast", 1e-3, 1e6, rope.beta_fast));
  PHALANX_RETURN_IF_ERROR(read_optional(fields, "beta_slow", 1e-3, 1e6, rope.beta_slow));
  PHALANX_RETURN_IF_ERROR(
      read_optional(fields, "attention_factor", 1e-3, 1e3, rope.attention_factor));
  // One of them alone says nothing.
  if (fields.has("mscale") && fields.has("mscale_all_dim")) {
    return unimplemented(fields.name_of("mscale") +
                         ": expected none beside mscale_all_dim, found one: not supported");
  }
  PHALANX_RETURN_IF_ERROR(refuse_unless_one(fields, "attn_factor"));
  PHALANX_RETURN_IF_ERROR(refuse_unless_one(fields, "extrapolation_factor"));
  PHALANX_RETURN_IF_ERROR(refuse_false(fields, "apply_yarn_scaling"));
  return refuse_false(fields, "truncate");
}

// Rotating a part of each head only is another arithmetic.
Status refuse_partial_rotary(const json::Fields& fields) {
  double share = 1;
  PHALANX_RETURN_IF_ERROR(read_optional(fields, "partial_rotary_factor", 0, 1, share));
  if (share != 1) {
    return unimplemented(fields.name_of("partial_rotary_factor") + ": expected 1, found " +
                         std::to_string(share) + ": not supported");
  }
  return ok();
}

// Transformers 5 writes one object for each type of layer where they differ.
Status refuse_rope_by_layer(const json::Fields& fields, std::string_view key) {
  PHALANX_TRY(const json::Value* const object, fields.at(key));
  if (object->as_object() == nullptr) {
    return ok();
  }
  for (const auto& [name, value] : *object->as_object()) {
    if (value.as_object() != nullptr) {
      return unimplemented(fields.name_of(key) +
                           ": expected numbers for all layers, found an object \"" +
                           name.substr(0, 64) + "\": not supported");
    }
  }
  return ok();
}

Status read_rope_object(const json::Fields& fields,
                        std::string_view key,
                        std::uint32_t max_position,
                        RopeConfig& rope) {
  PHALANX_TRY(const json::Fields values, fields.object(key));
  PHALANX_RETURN_IF_ERROR(refuse_rope_by_layer(fields, key));
  PHALANX_RETURN_IF_ERROR(refuse_partial_rotary(values));
  PHALANX_RETURN_IF_ERROR(refuse_scaled_queries(values, "llama_4_scaling_beta"));
  PHALANX_RETURN_IF_ERROR(read_optional(values, "rope_theta", kLeastTheta, kMaxTheta, rope.theta));
  PHALANX_TRY(rope.scaling, rope_type(values));
  if (rope.scaling == RopeScaling::kNone) {
    return ok();
  }
  PHALANX_TRY(rope.factor, values.number("factor", 1, kMaxRopeFactor));
  if (rope.scaling == RopeScaling::kLlama3) {
    return read_llama3(values, rope);
  }
  return rope.scaling == RopeScaling::kYarn ? read_yarn(values, max_position, rope) : ok();
}

// An empty object is as none.
bool describes_rope(const json::Fields& fields, std::string_view key) {
  const auto value = fields.at(key);
  const bool is_empty = value && (*value)->as_object() != nullptr && (*value)->as_object()->empty();
  return fields.has(key) && !is_empty;
}

// Transformers 5 reads it before the one inside of rope_scaling, and earlier ones not at all.
Status check_original_outside(const json::Fields& fields, const RopeConfig& rope) {
  constexpr std::string_view kField = "original_max_position_embeddings";
  const bool uses = rope.scaling == RopeScaling::kYarn || rope.scaling == RopeScaling::kLlama3;
  if (!uses || !fields.has(kField)) {
    return ok();
  }
  PHALANX_TRY(const double outside, fields.number(kField, 1, kMaxPosition));
  if (outside != rope.original_max_position_embeddings) {
    return unimplemented(std::string(kField) +
                         ": expected none beside rope_scaling, or the same as there, found " +
                         std::to_string(static_cast<std::uint64_t>(outside)) + ": not supported");
  }
  return ok();
}

// Transformers 5 reads a theta in either object before the one outside, and earlier ones that
// alone.
Status check_theta_outside(const json::Fields& fields, const RopeConfig& rope) {
  double outside = rope.theta;
  PHALANX_RETURN_IF_ERROR(read_optional(fields, "rope_theta", kLeastTheta, kMaxTheta, outside));
  if (outside != rope.theta) {
    return unimplemented("rope_theta: expected " + std::to_string(rope.theta) +
                         ", as in rope_parameters or rope_scaling, or none, found " +
                         std::to_string(outside) + ": not supported");
  }
  return ok();
}

// Transformers 5 moved rope_theta and rope_scaling into one object, rope_parameters. Where both
// objects are there, some readers follow the one and some the other.
Status read_rope(const json::Fields& fields, ModelConfig& config) {
  PHALANX_RETURN_IF_ERROR(refuse_partial_rotary(fields));
  PHALANX_RETURN_IF_ERROR(refuse_scaled_queries(fields, "llama_4_scaling"));
  PHALANX_RETURN_IF_ERROR(
      read_optional(fields, "rope_theta", kLeastTheta, kMaxTheta, config.rope.theta));
  RopeConfig scaled = config.rope;
  const bool merged = describes_rope(fields, "rope_parameters");
  if (merged) {
    PHALANX_RETURN_IF_ERROR(
        read_rope_object(fields, "rope_parameters", config.max_position, config.rope));
    scaled.theta = config.rope.theta;
  }
  if (describes_rope(fields, "rope_scaling")) {
    PHALANX_RETURN_IF_ERROR(read_rope_object(fields, "rope_scaling", config.max_position, scaled));
    if (merged && scaled != config.rope) {
      return unimplemented(
          "rope_scaling: expected none beside rope_parameters, or the same, found another: not "
          "supported");
    }
    config.rope = scaled;
  }
  PHALANX_RETURN_IF_ERROR(check_theta_outside(fields, config.rope));
  return check_original_outside(fields, config.rope);
}

Status read_shape(const json::Fields& fields, ModelConfig& config) {
  PHALANX_TRY(config.layers, fields.positive("num_hidden_layers", kMaxLayers));
  PHALANX_TRY(config.hidden, fields.positive("hidden_size", kMaxInputs));
  PHALANX_TRY(config.heads, fields.positive("num_attention_heads", kMaxHeads));
  const bool grouped = fields.has("num_key_value_heads");
  PHALANX_TRY(
      config.kv_heads,
      fields.positive(grouped ? "num_key_value_heads" : "num_attention_heads", kMaxKvHeads));
  if (fields.has("head_dim")) {
    PHALANX_TRY(config.head_dim, fields.positive("head_dim", kMaxHeadDim));
  } else {
    PHALANX_RETURN_IF_ERROR(check_multiple("hidden_size", config.hidden, config.heads));
    config.head_dim = config.hidden / config.heads;
  }
  config.rope.head_dim = config.head_dim;
  PHALANX_TRY(config.intermediate, fields.positive("intermediate_size", kMaxWidth));
  PHALANX_TRY(config.vocab, fields.positive("vocab_size", kMaxVocab));
  PHALANX_TRY(config.max_position, fields.positive("max_position_embeddings", kMaxPosition));
  return check_shape(config,
                     {"hidden_size",
                      "num_attention_heads",
                      "num_key_value_heads",
                      "head_dim",
                      "intermediate_size"});
}

Result<json::Value> root_object(std::string_view text) {
  if (text.empty()) {
    return invalid_argument("expected an object, found an empty file");
  }
  PHALANX_TRY(json::Value root, json::parse(text, {.bytes_max = kMaxConfigBytes}));
  if (root.as_object() == nullptr) {
    return invalid_argument("expected an object, found " + json::describe(root));
  }
  return root;
}

Status read_float(
    const json::Fields& fields, std::string_view field, double least, double most, float& out) {
  double value = static_cast<double>(out);
  PHALANX_RETURN_IF_ERROR(read_optional(fields, field, least, most, value));
  out = static_cast<float>(value);
  return ok();
}

// A default is what a request could say.
Status read_default(const json::Fields& fields, const step::RealRule& rule, float& out) {
  if (fields.has(rule.name)) {
    const step::RealRule allowed = rule_of_default(rule);
    PHALANX_TRY(const double value, fields.number(rule.name, allowed.low, allowed.high));
    out = step::narrowed(std::max(value, rule.low));
  }
  return ok();
}

}  // namespace

std::string_view limit_of_positions(const ModelConfig& config) {
  return config.sliding_window != 0    ? "sliding window"
         : config.attention_chunk != 0 ? "attention chunk"
                                       : "";
}

std::uint64_t hash_of(const ModelConfig& config) {
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  const RopeConfig& rope = config.rope;
  Fingerprint hash;
  hash.add_text(config.model_type).add(config.layers).add(config.hidden).add(config.heads);
  hash.add(config.kv_heads).add(config.head_dim).add(config.intermediate).add(config.vocab);
  hash.add(bits(static_cast<double>(config.rms_norm_eps))).add(bits(rope.theta));
  hash.add(static_cast<std::uint64_t>(rope.scaling)).add(bits(rope.factor));
  hash.add(bits(rope.low_freq_factor)).add(bits(rope.high_freq_factor));
  hash.add(bits(rope.original_max_position_embeddings))
      .add(bits(rope.beta_fast))
      .add(bits(rope.beta_slow));
  hash.add(bits(rope.attention_factor)).add(config.tied_head ? 1 : 0);
  for (const float divisor : rope.divisors) {
    hash.add(bits(static_cast<double>(divisor)));
  }
  hash.add(config.qk_norm ? 1 : 0).add(config.qkv_bias ? 1 : 0);
  hash.add(config.output_bias ? 1 : 0).add(config.mlp_bias ? 1 : 0);
  for (std::size_t layer = 0; layer < config.formats.layers.size(); ++layer) {
    for (const kernels::WeightFormat format : config.formats.layers[layer].each()) {
      hash.add(static_cast<std::uint64_t>(format));
    }
  }
  hash.add(static_cast<std::uint64_t>(config.formats.embedding));
  hash.add(static_cast<std::uint64_t>(config.formats.head));
  return hash.value();
}

Result<ModelConfig> parse_config(std::string_view json) {
  PHALANX_TRY(const json::Value root, root_object(json));
  const json::Fields fields(root, "");
  ModelConfig config;
  PHALANX_TRY(const Architecture* const architecture, architecture_of(fields));
  PHALANX_RETURN_IF_ERROR(read_shape(fields, config));
  PHALANX_RETURN_IF_ERROR(
      read_float(fields, "rms_norm_eps", kLeastEpsilon, kMaxEpsilon, config.rms_norm_eps));
  PHALANX_RETURN_IF_ERROR(refuse_multipliers(fields, config));
  PHALANX_RETURN_IF_ERROR(read_rope(fields, config));
  PHALANX_RETURN_IF_ERROR(finish_rope(config, Counted::kBeforeScaling));
  PHALANX_RETURN_IF_ERROR(read_architecture(fields, *architecture, config));
  if (fields.has("tie_word_embeddings")) {
    PHALANX_TRY(config.tied_head, fields.boolean("tie_word_embeddings"));
  }
  if (fields.has("eos_token_id")) {
    PHALANX_TRY(config.eos, fields.ids("eos_token_id", config.vocab));
  }
  return config;
}

GenerationDefaults default_generation(const ModelConfig& config) {
  GenerationDefaults defaults;
  defaults.eos = config.eos;
  return defaults;
}

Result<GenerationDefaults> parse_generation_config(std::string_view json,
                                                   const ModelConfig& config) {
  PHALANX_TRY(const json::Value root, root_object(json));
  const json::Fields fields(root, "");
  GenerationDefaults defaults = default_generation(config);
  PHALANX_RETURN_IF_ERROR(read_default(fields, step::kTemperatureRule, defaults.temperature));
  PHALANX_RETURN_IF_ERROR(read_default(fields, step::kTopPRule, defaults.top_p));
  PHALANX_RETURN_IF_ERROR(read_default(fields, step::kMinPRule, defaults.min_p));
  PHALANX_RETURN_IF_ERROR(
      read_default(fields, step::kRepetitionPenaltyRule, defaults.repetition_penalty));
  double top_k = 0;
  PHALANX_RETURN_IF_ERROR(read_optional(fields, "top_k", -1, kMaxVocab, top_k));
  if (std::floor(top_k) != top_k) {
    return invalid_argument("top_k: expected an integer, found " + std::to_string(top_k));
  }
  defaults.top_k = top_k < 0 ? 0 : static_cast<std::int32_t>(top_k);
  if (fields.has("do_sample")) {
    PHALANX_TRY(const bool sample, fields.boolean("do_sample"));
    if (!sample) {
      defaults.temperature = 0.0F;
    }
  }
  if (fields.has("eos_token_id")) {
    PHALANX_TRY(defaults.eos, fields.ids("eos_token_id", config.vocab));
  }
  return defaults;
}

}  // namespace phalanx::checkpoint
