// SPDX-License-Identifier: Apache-2.0
// Which formats the matrices of a checkpoint are served in.
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/step/choices.h"

namespace phalanx::checkpoint {

using gguf::TensorType;
using kernels::WeightFormat;

namespace {

// More do not fit into a line that people read.
constexpr std::size_t kMostNamed = 6;

// In the order of LayerFormats.
constexpr std::array kLayerMatrices = {"self_attn.q_proj.weight",
                                       "self_attn.k_proj.weight",
                                       "self_attn.v_proj.weight",
                                       "self_attn.o_proj.weight",
                                       "mlp.gate_proj.weight",
                                       "mlp.up_proj.weight",
                                       "mlp.down_proj.weight"};

std::string name_of(std::uint32_t layer, const char* matrix) {
  return "model.layers." + std::to_string(layer) + "." + matrix;
}

}  // namespace

std::string describe(const WeightFormats& formats) {
  std::vector<WeightFormat> of_layers;
  for (const LayerFormats& layer : formats.layers) {
    for (const WeightFormat format : layer.each()) {
      if (std::ranges::count(of_layers, format) == 0) {
        of_layers.push_back(format);
      }
    }
  }
  std::string text;
  for (const WeightFormat format :
       std::span(of_layers).first(std::min(of_layers.size(), kMostNamed))) {
    text.append(text.empty() ? "" : " and ").append(kernels::weight_format_name(format));
  }
  if (of_layers.size() > kMostNamed) {
    text.append(" and ").append(std::to_string(of_layers.size() - kMostNamed)).append(" more");
  }
  if (of_layers != std::vector{formats.head}) {
    text.append(", head ").append(kernels::weight_format_name(formats.head));
  }
  if (formats.embedding != formats.head) {
    text.append(", embedding ").append(kernels::weight_format_name(formats.embedding));
  }
  return text;
}

std::optional<WeightFormat> format_of_codes(TensorType type) {
  switch (type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
      return std::nullopt;
    case TensorType::kQ8_0:
      return WeightFormat::kInt8G32;
    case TensorType::kQ5_0:
      return WeightFormat::kInt5G32;
    case TensorType::kQ4_0:
    case TensorType::kTQ1_0:
    case TensorType::kTQ2_0:
    case TensorType::kQ1_0:
    case TensorType::kQ2_0:
      return WeightFormat::kInt4;
    case TensorType::kQ4_1:
      return WeightFormat::kInt4G32Min;
    case TensorType::kQ5_1:
      return WeightFormat::kInt5G32Min;
    case TensorType::kQ2_K:
      return WeightFormat::kInt4G16MinK;
    case TensorType::kQ4_K:
      return WeightFormat::kInt4G32MinK;
    case TensorType::kQ5_K:
      return WeightFormat::kInt5G32MinK;
    case TensorType::kQ3_K:
      return WeightFormat::kInt4G16K;
    case TensorType::kQ6_K:
      return WeightFormat::kInt6G16K;
    case TensorType::kIQ1_S:
    case TensorType::kIQ2_XXS:
      return WeightFormat::kIq2G32;
    case TensorType::kIQ1_M:
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S:
      return WeightFormat::kIq2G16;
    case TensorType::kIQ3_XXS:
      return WeightFormat::kIq3XxsG32;
    case TensorType::kIQ3_S:
      return WeightFormat::kIq3SG32;
    case TensorType::kIQ4_NL:
    case TensorType::kIQ4_XS:
      return WeightFormat::kIq4G32;
    case TensorType::kMXFP4:
      return WeightFormat::kE2m1G32;
    case TensorType::kNVFP4:
      return WeightFormat::kE2m1G16;
  }
  return std::nullopt;
}

WeightFormat in_one_level(WeightFormat format) {
  switch (format) {
    case WeightFormat::kInt6G16K:
    case WeightFormat::kInt4G16K:
      return WeightFormat::kInt8G16;
    case WeightFormat::kInt5G32MinK:
      return WeightFormat::kInt5G32Min;
    case WeightFormat::kInt4G32MinK:
      return WeightFormat::kInt4G32Min;
    case WeightFormat::kInt4G16MinK:
      return WeightFormat::kInt8G16Min;
    default:
      return format;
  }
}

WeightFormats Checkpoint::formats_for(std::string_view quantization) const {
  for (const WeightFormat format : kernels::kWeightFormats) {
    const kernels::WeightTraits& traits = kernels::traits_of(format);
    if (traits.from_floats && traits.name == quantization) {
      return {format, format};
    }
  }
  PHALANX_CHECK(quantization == step::kAutoQuantization, "not one of quantization_choices()");
  return stored_formats();
}

WeightFormats Checkpoint::stored_formats() const {
  const auto format_of = [this](const std::string& name) {
    return format_of_codes(weight(name).type).value_or(WeightFormat::kBf16);
  };
  WeightFormats formats;
  formats.embedding = format_of("model.embed_tokens.weight");
  formats.head = config_.tied_head ? formats.embedding : format_of("lm_head.weight");
  std::vector<LayerFormats> layers;
  for (std::uint32_t index = 0; index < config_.layers; ++index) {
    const auto of_matrix = [&](std::size_t matrix) {
      return format_of(name_of(index, kLayerMatrices[matrix]));
    };
    const LayerFormats found = {of_matrix(0),
                                of_matrix(1),
                                of_matrix(2),
                                of_matrix(3),
                                of_matrix(4),
                                of_matrix(5),
                                of_matrix(6)};
    if (std::ranges::count(found.each(), WeightFormat::kBf16) != 0) {
      return formats;
    }
    layers.push_back(found);
  }
  const std::size_t of_heads = std::size_t{config_.heads_per_group()} * config_.head_dim;
  // The leaves of the product after attention are those of a group of heads; all others are whole
  // groups of scales in any model (ModelConfig), but not whole superblocks.
  if (of_heads % kernels::kDotBlock != 0) {
    return formats;
  }
  for (LayerFormats& layer : layers) {
    layer.o = of_heads % kernels::kSuperblock == 0 ? layer.o : in_one_level(layer.o);
    layer.down = config_.mlp_run_columns() % kernels::kSuperblock == 0 ? layer.down
                                                                       : in_one_level(layer.down);
  }
  const bool equal = std::ranges::all_of(
      layers, [&](const LayerFormats& layer) { return layer == layers.front(); });
  layers.resize(equal ? 1 : layers.size());
  formats.layers = std::move(layers);
  return formats;
}

std::string Checkpoint::codes_left(std::string_view quantization) const {
  if (quantization != step::kAutoQuantization) {
    return {};
  }
  bool has_codes = false;
  std::string reason;
  for (std::uint32_t index = 0; index < config_.layers; ++index) {
    for (const char* name : kLayerMatrices) {
      const WeightTensor& tensor = weight(name_of(index, name));
      if (format_of_codes(tensor.type)) {
        has_codes = true;
      } else if (reason.empty()) {
        reason.append(tensor.name).append(" has none, it is ");
        reason.append(gguf::traits_of(tensor.type).name);
      }
    }
  }
  const std::uint32_t of_heads = config_.heads_per_group() * config_.head_dim;
  if (reason.empty() && of_heads % kernels::kDotBlock != 0) {
    reason = name_of(0, kLayerMatrices[3]) + " has " + std::to_string(of_heads) +
             " columns for each group of heads, which is no multiple of " +
             std::to_string(kernels::kDotBlock);
  }
  return has_codes && !reason.empty()
             ? "all matrices of the layers are held as bf16, those with codes too: " + reason
             : std::string();
}

}  // namespace phalanx::checkpoint
