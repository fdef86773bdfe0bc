// SPDX-License-Identifier: Apache-2.0
// What a configuration may say, wherever it is read from.
#pragma once

#include <cstdint>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/config.h"
#include "phalanx/kernels/layout.h"
#include "phalanx/kernels/matmul.h"
#include "phalanx/kernels/weight.h"
#include "phalanx/step/sampling_rules.h"

namespace phalanx::checkpoint {

inline constexpr std::uint32_t kMaxLayers = 1024;
inline constexpr std::uint32_t kMaxWidth = 1U << 20;
inline constexpr std::uint32_t kMaxInputs = kernels::kMaxIntegerK;  // that a product adds up
inline constexpr std::uint32_t kMaxHeads = 4096;
inline constexpr std::uint32_t kMaxKvHeads = kernels::kMaxLeaves;
inline constexpr std::uint32_t kMaxHeadDim = kernels::kMaxHeadDim;
inline constexpr std::uint32_t kMaxVocab = 1U << 22;
inline constexpr std::uint32_t kMaxPosition = 1U << 24;
inline constexpr double kLeastTheta = 1;
inline constexpr double kMaxTheta = 1e12;
inline constexpr double kMaxRopeFactor = 1e4;
inline constexpr double kLeastEpsilon = 1e-12;
inline constexpr double kMaxEpsilon = 1e-1;

// What the fields of a shape are called where they are read from, for messages.
struct ShapeNames {
  std::string_view hidden;
  std::string_view heads;
  std::string_view kv_heads;
  std::string_view head_dim;
  std::string_view intermediate;
};

// Errors: kInvalidArgument  widths that the kernels do not take, heads that do not share KV heads
//                           evenly, or too many of them (field, expected, found)
Status check_shape(const ModelConfig& config, const ShapeNames& names);

// What the max_position of a configuration counts where positions are scaled linearly.
enum class Counted : std::uint8_t { kBeforeScaling, kBehindScaling };

// To be called when config.rope is complete: positions that are scaled reach further than those
// that the model was made with, which is what config.max_position is then. YaRN counts from its
// original ones, linear scaling from max_position where that is kBeforeScaling; llama3 and divisors
// leave it as it is.
//
// Errors: kInvalidArgument  what make_rope_frequencies() does not take
Status finish_rope(ModelConfig& config, Counted counted);

// Attention that sees the last `window` tokens is attention to all while there are no more: leaves
// as many positions, and tells so in config.sliding_window. 0: none.
void keep_within_window(double window, ModelConfig& config);

// The same where positions are counted anew from chunk to chunk, in config.attention_chunk. To be
// called before the one above.
void keep_within_chunk(double chunk, ModelConfig& config);

// What a model's own defaults may say where requests may say `rule`: of a share, none at all too,
// which is taken as the least, as in requests.
step::RealRule rule_of_default(const step::RealRule& rule);

Status check_multiple(std::string_view field, std::uint32_t value, std::uint32_t of);

}  // namespace phalanx::checkpoint
