// SPDX-License-Identifier: Apache-2.0
#include "gguf_config.h"

#include <algorithm>
#include <array>
#include <optional>

#include "config_limits.h"
#include "gguf_keys.h"
#include "gguf_rope.h"

namespace phalanx::checkpoint {
namespace {

struct GgufArchitecture {
  std::string_view name;  // of general.architecture and of model_type
  bool qk_norm = false;
  bool always_qkv_bias = false;
};
constexpr std::array<GgufArchitecture, 3> kGgufArchitectures = {{
    {"qwen3", true, false},
    {"qwen2", false, true},
    {"llama", false, false},
}};

Result<GgufArchitecture> architecture_of(const gguf::Metadata& metadata) {
  PHALANX_TRY(const std::string_view name, metadata.text("general.architecture"));
  std::string names;
  for (const GgufArchitecture& architecture : kGgufArchitectures) {
    if (architecture.name == name) {
      return architecture;
    }
    names += (names.empty() ? "" : ", ") + std::string(architecture.name);
  }
  return unimplemented("architecture \"" + std::string(name.substr(0, 64)) +
                       "\" is not supported; supported in GGUF files: " + names);
}

// Keys of variants that would need another arithmetic.
Status refuse_variants(const GgufKeys& keys) {
  if (constexpr std::string_view kCausal = "attention.causal"; keys.has(kCausal)) {
    PHALANX_TRY(const bool causal, keys.all().boolean(keys.name(kCausal)));
    if (!causal) {
      return unimplemented("key \"" + keys.name(kCausal) +
                           "\": expected true, found false: not supported");
    }
  }
  if (constexpr std::string_view kScale = "rope.scale_linear"; keys.has(kScale)) {
    PHALANX_TRY(const double value, keys.all().number(keys.name(kScale)));
    if (value != 0 && value != 1) {
      return unimplemented("key \"" + keys.name(kScale) + "\": expected none or 1, found " +
                           gguf::number_text(value) + ": not supported");
    }
  }
  for (const std::string_view key : {"expert_count",
                                     "attention.max_alibi_bias",
                                     "attention.clamp_kqv",
                                     "logit_scale",
                                     "attention.scale",
                                     "embedding_scale",
                                     "residual_scale"}) {
    if (keys.has(key)) {
      PHALANX_TRY(const double value, keys.all().number(keys.name(key)));
      if (value != 0) {
        return unimplemented("key \"" + keys.name(key) + "\": expected none, found " +
                             gguf::number_text(value) + ": not supported");
      }
    }
  }
  return ok();
}

Status read_window(const GgufKeys& keys, ModelConfig& config) {
  constexpr std::string_view kWindow = "attention.sliding_window";
  if (keys.has(kWindow)) {
    PHALANX_TRY(const std::int64_t window,
                keys.all().integer(keys.name(kWindow), 0, std::int64_t{1} << 40));
    keep_within_window(static_cast<double>(window), config);
  }
  return ok();
}

// The embedding says how many tokens there are; llama.vocab_size and the token list may be absent
// or shorter.
Result<std::uint32_t> vocabulary_of(const GgufModel& model) {
  constexpr std::string_view kName = "token_embd.weight";
  const gguf::Tensor* tensor = model.find(kName).tensor;
  if (tensor == nullptr) {
    return not_found("tensor \"" + std::string(kName) + "\": expected one, found none");
  }
  if (tensor->shape.size() != 2 || tensor->shape.front() > kMaxVocab) {
    return data_loss("tensor \"" + std::string(kName) + "\": expected at most " +
                     std::to_string(kMaxVocab) + " rows, found " +
                     std::to_string(tensor->shape.empty() ? 0 : tensor->shape.front()) + " in " +
                     std::to_string(tensor->shape.size()) + " dimensions");
  }
  return static_cast<std::uint32_t>(tensor->shape.front());
}

Status read_shape(const GgufKeys& keys, ModelConfig& config) {
  PHALANX_TRY(config.layers, keys.positive("block_count", kMaxLayers));
  PHALANX_TRY(config.hidden, keys.positive("embedding_length", kMaxInputs));
  PHALANX_TRY(config.heads, keys.positive("attention.head_count", kMaxHeads));
  PHALANX_TRY(config.kv_heads,
              keys.positive_or("attention.head_count_kv", kMaxKvHeads, config.heads));
  if (keys.has("attention.key_length")) {
    PHALANX_TRY(config.head_dim, keys.positive("attention.key_length", kMaxHeadDim));
  } else {
    PHALANX_RETURN_IF_ERROR(
        check_multiple(keys.name("embedding_length"), config.hidden, config.heads));
    config.head_dim = config.hidden / config.heads;
  }
  PHALANX_TRY(const std::uint32_t value_length,
              keys.positive_or("attention.value_length", kMaxWidth, config.head_dim));
  if (value_length != config.head_dim || config.head_dim > kMaxHeadDim) {
    return unimplemented("key \"" + keys.name("attention.value_length") + "\": expected " +
                         std::to_string(std::min(config.head_dim, kMaxHeadDim)) +
                         ", as wide as keys, found " + std::to_string(value_length) +
                         ": not supported");
  }
  PHALANX_TRY(config.intermediate, keys.positive("feed_forward_length", kMaxWidth));
  PHALANX_TRY(config.max_position, keys.positive("context_length", kMaxPosition));
  const std::array<std::string, 5> names = {keys.name("embedding_length"),
                                            keys.name("attention.head_count"),
                                            keys.name("attention.head_count_kv"),
                                            keys.name("attention.key_length"),
                                            keys.name("feed_forward_length")};
  return check_shape(config, {names[0], names[1], names[2], names[3], names[4]});
}

bool is_end_text(std::string_view text) {
  constexpr std::array<std::string_view, 6> kEnds = {
      "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "</s>"};
  return std::find(kEnds.begin(), kEnds.end(), text) != kEnds.end();
}

// Chat models end a turn and a text with different tokens, and files name only one of them: control
// tokens with the texts that the supported families use end an answer too, as in the
// generation_config.json of those families.
Status add_end_tokens_by_text(const gguf::Metadata& metadata, ModelConfig& config) {
  constexpr const char* kTokens = "tokenizer.ggml.tokens";
  constexpr const char* kTypes = "tokenizer.ggml.token_type";
  constexpr std::int32_t kControl = 3;
  if (!metadata.has(kTokens) || !metadata.has(kTypes)) {
    return ok();
  }
  PHALANX_TRY(const std::vector<std::string_view> tokens, metadata.texts(kTokens));
  PHALANX_TRY(const std::vector<std::int32_t> types, metadata.integers(kTypes));
  if (tokens.size() > config.vocab || types.size() != tokens.size()) {
    return data_loss(
        "key \"" + std::string(kTokens) + "\": expected at most " + std::to_string(config.vocab) +
        " tokens, as the embedding has, each with a type, found " + std::to_string(tokens.size()) +
        " and " + std::to_string(types.size()) + " types");
  }
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] == kControl && is_end_text(tokens[id])) {
      config.eos.push_back(static_cast<TokenId>(id));
    }
  }
  return ok();
}

Status read_end_tokens(const gguf::Metadata& metadata, ModelConfig& config) {
  for (const char* key : {"tokenizer.ggml.eos_token_id",
                          "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    PHALANX_TRY(const std::optional<std::int64_t> id, metadata.token_id(key, config.vocab - 1));
    if (id) {
      config.eos.push_back(static_cast<TokenId>(*id));
    }
  }
  PHALANX_RETURN_IF_ERROR(add_end_tokens_by_text(metadata, config));
  std::sort(config.eos.begin(), config.eos.end());
  config.eos.erase(std::unique(config.eos.begin(), config.eos.end()), config.eos.end());
  return ok();
}

Result<ModelConfig> read_config(const GgufModel& model) {
  const gguf::Metadata& metadata = model.metadata();
  PHALANX_TRY(const GgufArchitecture architecture, architecture_of(metadata));
  const GgufKeys keys(metadata, std::string(architecture.name));
  ModelConfig config;
  config.model_type = keys.prefix();
  PHALANX_RETURN_IF_ERROR(read_shape(keys, config));
  PHALANX_TRY(config.vocab, vocabulary_of(model));
  PHALANX_RETURN_IF_ERROR(read_gguf_rope(keys, model, config));
  PHALANX_RETURN_IF_ERROR(refuse_variants(keys));
  PHALANX_RETURN_IF_ERROR(read_window(keys, config));
  PHALANX_TRY(const double epsilon,
              keys.number("attention.layer_norm_rms_epsilon", kLeastEpsilon, kMaxEpsilon));
  config.rms_norm_eps = static_cast<float>(epsilon);
  const auto has = [&](std::string_view tensor) { return model.find(tensor).tensor != nullptr; };
  config.tied_head = !has("output.weight");
  config.qk_norm = architecture.qk_norm;
  config.qkv_bias = architecture.always_qkv_bias || has("blk.0.attn_q.bias");
  config.output_bias = has("blk.0.attn_output.bias");
  config.mlp_bias = has("blk.0.ffn_gate.bias");
  PHALANX_RETURN_IF_ERROR(read_end_tokens(metadata, config));
  return config;
}

}  // namespace

Result<ModelConfig> read_gguf_config(const GgufModel& model) {
  auto config = read_config(model);
  if (!config) {
    return std::move(config).error().with(model.name_of(0));
  }
  return config;
}

}  // namespace phalanx::checkpoint
