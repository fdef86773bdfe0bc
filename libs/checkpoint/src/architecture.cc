// SPDX-License-Identifier: Apache-2.0
#include "architecture.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "phalanx/json/fields.h"

#include "config_limits.h"

namespace phalanx::checkpoint {

// Whether a kind of model adds a bias: by its definition, or where a field says so.
enum class Bias : std::uint8_t { kNever, kAlways, kByField };

// Which field turns sliding-window attention on.
enum class Window : std::uint8_t {
  kBySize,  // sliding_window is a number
  kByFlag,  // use_sliding_window, for layers from max_window_layers on
};

struct Architecture {
  std::string_view model_type;
  std::array<std::string_view, 3> classes;  // of Transformers that compute this; the rest empty
  bool qk_norm;
  Bias qkv_bias;     // attention_bias
  Bias output_bias;  // attention_bias
  Bias mlp_bias;     // mlp_bias
  Window window;
  double default_window;  // tokens, where a configuration does not name any; 0 = none
};

namespace {

constexpr double kNoWindow = 0;
constexpr double kMistralWindow = 4096;
constexpr double kFullLayers = 28;  // without max_window_layers

constexpr std::string_view kLlama = "LlamaForCausalLM";
constexpr std::string_view kEarlyLlama = "LLaMAForCausalLM";  // the same before it was released
constexpr std::string_view kMistral = "MistralForCausalLM";   // the same but for its fields

constexpr std::array<Architecture, 4> kArchitectures = {{
    {.model_type = "qwen3",
     .classes = {"Qwen3ForCausalLM"},
     .qk_norm = true,
     .qkv_bias = Bias::kByField,
     .output_bias = Bias::kByField,
     .mlp_bias = Bias::kNever,
     .window = Window::kByFlag,
     .default_window = kMistralWindow},
    {.model_type = "qwen2",
     .classes = {"Qwen2ForCausalLM"},
     .qk_norm = false,
     .qkv_bias = Bias::kAlways,
     .output_bias = Bias::kNever,
     .mlp_bias = Bias::kNever,
     .window = Window::kByFlag,
     .default_window = kMistralWindow},
    {.model_type = "llama",
     .classes = {kLlama, kEarlyLlama, kMistral},
     .qk_norm = false,
     .qkv_bias = Bias::kByField,
     .output_bias = Bias::kByField,
     .mlp_bias = Bias::kByField,
     .window = Window::kBySize,
     .default_window = kNoWindow},
    {.model_type = "mistral",
     .classes = {kMistral, kLlama},
     .qk_norm = false,
     .qkv_bias = Bias::kNever,
     .output_bias = Bias::kNever,
     .mlp_bias = Bias::kNever,
     .window = Window::kBySize,
     .default_window = kMistralWindow},
}};
constexpr std::string_view kTypeNames = "qwen3, qwen2, llama, mistral";

Error refused(const std::string& what, std::string_view expected, std::string_view found) {
  return unimplemented(what + ": expected " + std::string(expected) + ", found " +
                       std::string(found) + ": not supported");
}

// A field that contradicts what the kind of model is by definition is refused: a reader that
// ignores it and one that follows it would compute different models.
Result<bool> has_bias(const json::Fields& fields,
                      std::string_view field,
                      Bias bias,
                      const Architecture& architecture) {
  bool value = bias == Bias::kAlways;
  if (fields.has(field)) {
    PHALANX_TRY(value, fields.boolean(field));
  }
  if (bias != Bias::kByField && value != (bias == Bias::kAlways)) {
    return refused(std::string(field),
                   std::string(value ? "false" : "true") + " for model_type \"" +
                       std::string(architecture.model_type) + "\"",
                   value ? "true" : "false");
  }
  return value;
}

Status read_biases(const json::Fields& fields,
                   const Architecture& architecture,
                   ModelConfig& config) {
  PHALANX_TRY(config.qkv_bias,
              has_bias(fields, "attention_bias", architecture.qkv_bias, architecture));
  config.output_bias = architecture.output_bias == Bias::kByField && config.qkv_bias;
  PHALANX_TRY(config.mlp_bias, has_bias(fields, "mlp_bias", architecture.mlp_bias, architecture));
  return ok();
}

// The newer way to say which layers have a window: whether one has. None if it is not said.
Result<std::optional<bool>> window_by_layers(const json::Fields& fields) {
  if (!fields.has("layer_types")) {
    return std::optional<bool>();
  }
  PHALANX_TRY(const json::Value* const types, fields.at("layer_types"));
  if (types->as_array() == nullptr) {
    return invalid_argument("layer_types: expected an array, found " + json::describe(*types));
  }
  bool any = false;
  for (const json::Value& type : *types->as_array()) {
    const bool is_sliding = type.as_string() != nullptr && *type.as_string() == "sliding_attention";
    if (!is_sliding && (type.as_string() == nullptr || *type.as_string() != "full_attention")) {
      return refused("layer_types",
                     "\"full_attention\" or \"sliding_attention\" for each layer",
                     json::describe(type));
    }
    any = any || is_sliding;
  }
  return std::optional(any);
}

// The window of attention in tokens, or 0 for none.
Result<double> window_of(const json::Fields& fields,
                         const Architecture& architecture,
                         const ModelConfig& config) {
  constexpr double kMost = 1e12;
  PHALANX_TRY(const std::optional<bool> by_layers, window_by_layers(fields));
  if (architecture.window == Window::kByFlag && by_layers && !*by_layers) {
    return kNoWindow;  // whatever the flag says: it is the older way
  }
  if (architecture.window == Window::kByFlag && !by_layers) {
    bool used = false;
    if (fields.has("use_sliding_window")) {
      PHALANX_TRY(used, fields.boolean("use_sliding_window"));
    }
    double full_layers = kFullLayers;
    if (fields.has("max_window_layers")) {
      PHALANX_TRY(full_layers, fields.number("max_window_layers", 0, kMost));
    }
    if (!used || full_layers >= config.layers) {
      return kNoWindow;
    }
  }
  double window = fields.is_null("sliding_window") ? kNoWindow : architecture.default_window;
  if (fields.has("sliding_window")) {
    PHALANX_TRY(window, fields.number("sliding_window", 1, kMost));
  }
  if (by_layers.value_or(false) && window == kNoWindow) {
    return invalid_argument(
        "sliding_window: expected a number of tokens, as layer_types has layers with a window, "
        "found none");
  }
  return window;
}

// Qwen2.5-1M: attention is as any within the context that the model had before, and a chunk.
Status read_chunks(const json::Fields& fields, ModelConfig& config) {
  constexpr std::string_view kField = "dual_chunk_attention_config";
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  if (!fields.has(kField)) {
    return ok();
  }
  PHALANX_TRY(const json::Fields chunks, fields.object(kField));
  if (!chunks.has(kOriginal)) {
    return refused(chunks.name_of(kOriginal), "a number of tokens", "none");
  }
  PHALANX_TRY(double chunk, chunks.number(kOriginal, 1, kMaxPosition));
  if (chunks.has("chunk_size")) {
    PHALANX_TRY(const double size, chunks.number("chunk_size", 1, kMaxPosition));
    chunk = std::min(chunk, size);
  }
  keep_within_chunk(chunk, config);
  return ok();
}

// Transformers 5 has it, for models that look ahead.
Status check_causal(const json::Fields& fields) {
  if (!fields.has("is_causal")) {
    return ok();
  }
  PHALANX_TRY(const bool causal, fields.boolean("is_causal"));
  return causal ? ok() : Status(refused("is_causal", "true", "false"));
}

Status check_activation(const json::Fields& fields) {
  if (!fields.has("hidden_act")) {
    return ok();
  }
  PHALANX_TRY(const std::string_view activation, fields.text("hidden_act"));
  // Two names of one function.
  if (activation != "silu" && activation != "swish") {
    return refused("hidden_act", "\"silu\"", "\"" + std::string(activation.substr(0, 64)) + "\"");
  }
  return ok();
}

std::string classes_of(const Architecture& architecture) {
  std::string names;
  for (const std::string_view name : architecture.classes) {
    if (!name.empty()) {
      names.append(names.empty() ? "\"" : " or \"").append(name).append("\"");
    }
  }
  return names;
}

// Models with other layers, and those that judge texts instead of writing them, share model_type
// and many tensors, or all, with those that are computed here.
Status check_classes(const json::Fields& fields, const Architecture& architecture) {
  if (!fields.has("architectures")) {
    return ok();
  }
  PHALANX_TRY(const json::Value* const names, fields.at("architectures"));
  if (names->as_array() == nullptr) {
    return invalid_argument("architectures: expected an array, found " + json::describe(*names));
  }
  for (const json::Value& name : *names->as_array()) {
    if (name.as_string() == nullptr) {
      return invalid_argument("architectures: expected names, found " + json::describe(name));
    }
    const std::string& text = *name.as_string();
    if (text.empty() || std::ranges::count(architecture.classes, text) == 0) {
      return unimplemented("architectures: expected " + classes_of(architecture) +
                           ", as which model_type \"" + std::string(architecture.model_type) +
                           "\" is served, found \"" + text.substr(0, 64) +
                           "\": another model would be computed; if it is that one under another "
                           "name, correct the name in config.json");
    }
  }
  return ok();
}

}  // namespace

std::string_view supported_model_types() {
  return kTypeNames;
}

Result<const Architecture*> architecture_of(const json::Fields& fields) {
  PHALANX_TRY(const std::string_view type, fields.text("model_type"));
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type == type) {
      return &architecture;
    }
  }
  return unimplemented("model_type \"" + std::string(type.substr(0, 64)) +
                       "\" is not supported; supported: " + std::string(supported_model_types()));
}

Status read_architecture(const json::Fields& fields,
                         const Architecture& architecture,
                         ModelConfig& config) {
  PHALANX_RETURN_IF_ERROR(check_classes(fields, architecture));
  config.model_type = std::string(architecture.model_type);
  config.qk_norm = architecture.qk_norm;
  PHALANX_RETURN_IF_ERROR(read_biases(fields, architecture, config));
  PHALANX_RETURN_IF_ERROR(read_chunks(fields, config));
  PHALANX_TRY(const double window, window_of(fields, architecture, config));
  keep_within_window(window, config);
  PHALANX_RETURN_IF_ERROR(check_causal(fields));
  PHALANX_RETURN_IF_ERROR(check_activation(fields));
  if (fields.has("quantization_config")) {
    return unimplemented(
        "quantization_config: expected none, found one: quantised checkpoints of this kind are not "
        "supported; a GGUF file may be");
  }
  return ok();
}

}  // namespace phalanx::checkpoint
