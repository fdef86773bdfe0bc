// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "phalanx/base/ids.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"

namespace phalanx::model {

// Why a row has no token, which concerns no other row.
enum class RowFault : std::uint8_t {
  kNone,
  kLogits,    // the model gave a logit that is not finite: its weights are damaged
  kSampling,  // the sampling parameters made one so, or leave no token that may be drawn
};

// What an item of a step drew. token is −1 for an item that does not sample, and for one whose row
// has a fault.
struct SampledToken {
  TokenId token = -1;
  RowFault fault = RowFault::kNone;
  float logprob = 0.0F;         // 0 when no log probabilities were asked for
  std::uint32_t top_count = 0;  // entries of `top`, likeliest first
  std::array<step::TokenLogprob, step::kMaxTopLogprobs> top{};

  friend bool operator==(const SampledToken&, const SampledToken&) = default;
};

}  // namespace phalanx::model
