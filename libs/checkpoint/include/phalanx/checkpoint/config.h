// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/kernels/rope.h"
#include "phalanx/kernels/weight.h"

namespace phalanx::checkpoint {

// Leaves of the summation tree of the MLP (docs/arithmetic.md), fewer if there are fewer blocks.
inline constexpr std::uint32_t kMlpRuns = 16;

// How the matrices of a layer are packed: either all are bf16, or none is.
struct LayerFormats {
  kernels::WeightFormat q = kernels::WeightFormat::kBf16;
  kernels::WeightFormat k = kernels::WeightFormat::kBf16;
  kernels::WeightFormat v = kernels::WeightFormat::kBf16;
  kernels::WeightFormat o = kernels::WeightFormat::kBf16;
  kernels::WeightFormat gate = kernels::WeightFormat::kBf16;
  kernels::WeightFormat up = kernels::WeightFormat::kBf16;
  kernels::WeightFormat down = kernels::WeightFormat::kBf16;

  [[nodiscard]] static LayerFormats all(kernels::WeightFormat format) {
    return {format, format, format, format, format, format, format};
  }
  // In the order above.
  [[nodiscard]] std::array<kernels::WeightFormat, 7> each() const {
    return {q, k, v, o, gate, up, down};
  }

  friend bool operator==(const LayerFormats&, const LayerFormats&) = default;
};

// How matrices are packed and computed with. Vectors are fp32 whatever these say.
struct WeightFormats {
  WeightFormats() = default;
  // One format for the layers, one for embedding and head.
  WeightFormats(kernels::WeightFormat of_layers, kernels::WeightFormat of_head)
      : layers{LayerFormats::all(of_layers)}, embedding(of_head), head(of_head) {}

  // Of the layers from 0 on; the last counts for all that follow, so that one may stand for all. If
  // one is bf16, all are.
  std::vector<LayerFormats> layers = {LayerFormats{}};
  kernels::WeightFormat embedding = kernels::WeightFormat::kBf16;
  kernels::WeightFormat head = kernels::WeightFormat::kBf16;  // of a tied one: as the embedding

  [[nodiscard]] const LayerFormats& layer(std::size_t index) const {
    return layers[std::min(index, layers.size() - 1)];
  }

  friend bool operator==(const WeightFormats&, const WeightFormats&) = default;
};

// "int4", "int4, head bf16" where head and layers differ, and for formats that differ from matrix
// to matrix those that occur, up to six by name: "int4-g32-min and int8-g16". At most 256 bytes.
[[nodiscard]] std::string describe(const WeightFormats& formats);

// The shape of a decoder-only transformer. Everything here was checked: positive, bounded,
// consistent, and within what the kernels take.
struct ModelConfig {
  std::string model_type;  // one of supported_model_types()
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;  // multiple of 32
  std::uint32_t heads = 0;   // multiple of kv_heads
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;      // multiple of 16
  std::uint32_t intermediate = 0;  // multiple of 32
  std::uint32_t vocab = 0;
  std::uint32_t max_position = 0;  // tokens
  // Of those that the model was made for, max_position are left: as many as a token sees, while
  // attention here is to all of them. 0 if none is lost.
  std::uint32_t sliding_window = 0;
  // Likewise of chunks that positions are counted in anew: one is left. 0 if none is lost.
  std::uint32_t attention_chunk = 0;
  float rms_norm_eps = 1e-6F;
  kernels::RopeConfig rope;  // its head_dim is the one above
  bool tied_head = false;    // lm_head is embed_tokens
  bool qk_norm = false;      // an RMS norm of each query and key head, before the rotation
  bool qkv_bias = false;     // of the query, key and value products
  bool output_bias = false;  // of the product after attention
  bool mlp_bias = false;     // of the gate, up and down products
  std::vector<TokenId> eos;  // of config.json; generation_config.json overrides
  WeightFormats formats;     // chosen by who serves it (--quantization), not by the files

  [[nodiscard]] std::uint32_t heads_per_group() const { return heads / kv_heads; }
  // Columns that each leaf of the MLP begins at a multiple of: a superblock of scales, where the
  // MLP is whole ones and has one for each leaf.
  [[nodiscard]] std::uint32_t mlp_run_columns() const {
    const bool wide =
        intermediate % kernels::kSuperblock == 0 && intermediate / kernels::kSuperblock >= kMlpRuns;
    return wide ? std::uint32_t{kernels::kSuperblock} : std::uint32_t{kernels::kDotBlock};
  }
};

// What a request that names no sampling field gets, from generation_config.json.
struct GenerationDefaults {
  float temperature = 1.0F;  // 0 when the file says do_sample: false
  std::int32_t top_k = 0;    // 0 = all
  float top_p = 1.0F;
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;
  std::vector<TokenId> eos;  // ascending, no duplicates

  friend bool operator==(const GenerationDefaults&, const GenerationDefaults&) = default;
};

// What leaves fewer positions than the model was made for: "sliding window", "attention chunk".
// Empty: nothing.
[[nodiscard]] std::string_view limit_of_positions(const ModelConfig& config);

// Fingerprint of every field that the arithmetic or the layout of the weights depends on.
[[nodiscard]] std::uint64_t hash_of(const ModelConfig& config);

// The model_type values that parse_config accepts, for messages: "qwen3, qwen2, …".
[[nodiscard]] std::string_view supported_model_types();

// Reads the text of config.json.
//
// Errors: kInvalidArgument  not JSON, a field missing, of the wrong type or out of range; the
//                           message names the field, what was expected and what was found
//         kUnimplemented    a model_type, or a field that asks for what is not supported (another
//                           activation or rope type, …); the message names the field, what is
//                           supported and what was found
[[nodiscard]] Result<ModelConfig> parse_config(std::string_view json);

// Reads the text of generation_config.json; fields it lacks keep their neutral defaults, and `eos`
// comes from `config` when the file names none.
//
// Errors: kInvalidArgument  not JSON, a field of the wrong type, or beyond what a request may say
//                           (step/sampling_rules.h)
[[nodiscard]] Result<GenerationDefaults> parse_generation_config(std::string_view json,
                                                                 const ModelConfig& config);

// The defaults of a folder without generation_config.json.
[[nodiscard]] GenerationDefaults default_generation(const ModelConfig& config);

}  // namespace phalanx::checkpoint
