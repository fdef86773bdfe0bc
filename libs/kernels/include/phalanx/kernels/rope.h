// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::kernels {

enum class RopeScaling : std::uint8_t { kNone, kLinear, kLlama3, kYarn, kDivisors };

// The fields of config.json, under the names used there, and what GGUF files have instead of those
// of llama3: what each frequency is divided by.
struct RopeConfig {
  std::uint32_t head_dim = 0;
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;                             // linear, llama3, yarn
  double low_freq_factor = 1.0;                    // llama3
  double high_freq_factor = 4.0;                   // llama3
  double original_max_position_embeddings = 8192;  // llama3, yarn
  double beta_fast = 32.0;                         // yarn
  double beta_slow = 1.0;                          // yarn
  double attention_factor = 0.0;                   // yarn; 0 = 0.1 · ln(factor) + 1
  std::vector<float> divisors = {};                // divisors: [head_dim/2], at least 1

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

// What rope needs of the model, computed once.
struct RopeFrequencies {
  std::vector<double> inverse;    // [head_dim/2], radians per position
  double attention_factor = 1.0;  // multiplies cosine and sine
};

// Errors: kInvalidArgument  naming the field, what is expected and what came.
[[nodiscard]] Result<RopeFrequencies> make_rope_frequencies(const RopeConfig& config);

// cos and sin of position · frequency for each row of a step; every layer uses the same.
//
//   positions  [rows]               0 ≤ position < 2^24
//   cos, sin   [rows, rope_stride]  f32, out
//
// Math: docs/arithmetic.md, "Rotary tables".
// Tiles: row_tiles(rows) of rows.h.
struct RopeRowsArgs {
  const RopeFrequencies* frequencies = nullptr;
  const std::uint32_t* positions = nullptr;
  std::uint32_t rows = 0;
  float* cos = nullptr;
  float* sin = nullptr;
  std::size_t rope_stride = 0;
};
void rope_rows(const RopeRowsArgs& args, std::uint32_t tile);

}  // namespace phalanx::kernels
