// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "phalanx/base/ids.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"

namespace phalanx::step {

// One row of the result ring, a memfd that the replica maps read-only and the rank writes. Plain
// memory, same machine.
struct SampleResult {
  // StepId, written last with release order: a reader that sees another value has no result.
  std::uint64_t step = 0;
  std::uint64_t sequence = 0;
  TokenId token = 0;
  float logprob = 0.0F;
  std::uint32_t top_count = 0;
  // 0 = drawn; else the phalanx::Code of why this sequence, and it alone, has no token: kDataLoss
  // where the model's logits are not finite, kInvalidArgument where its sampling leaves none.
  std::uint32_t fault = 0;
  TokenLogprob top[kMaxTopLogprobs] = {};
};
static_assert(std::is_trivially_copyable_v<SampleResult>);

// What the tables of ranks and replica take for it. A sequence that has none is at its end, but a
// step that was sent ahead may name the position.
[[nodiscard]] constexpr TokenId table_token(const SampleResult& result) {
  return result.fault == 0 ? result.token : 0;
}

inline constexpr std::uint32_t kResultRingSteps = 2;  // a step and the one dispatched ahead of it

[[nodiscard]] constexpr std::size_t result_ring_rows(std::uint32_t max_num_seqs) {
  return std::size_t{max_num_seqs} * kResultRingSteps;
}
[[nodiscard]] constexpr std::size_t result_ring_bytes(std::uint32_t max_num_seqs) {
  return result_ring_rows(max_num_seqs) * sizeof(SampleResult);
}

}  // namespace phalanx::step
