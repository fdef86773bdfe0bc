// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "phalanx/base/ids.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"

namespace phalanx::model {

// What an item of a step drew. token is −1 for an item that does not sample, and for one whose row
// has a fault of its own: a logit that is not finite, or no token that may be drawn.
struct SampledToken {
  TokenId token = -1;
  float logprob = 0.0F;         // 0 when no log probabilities were asked for
  std::uint32_t top_count = 0;  // entries of `top`, likeliest first
  std::array<step::TokenLogprob, step::kMaxTopLogprobs> top{};

  friend bool operator==(const SampledToken&, const SampledToken&) = default;
};

}  // namespace phalanx::model
