// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "phalanx/base/ids.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"

namespace phalanx::step {

struct RowBias {
  TokenId token = 0;
  float bias = 0.0F;
};

// One row of a sequence table: what a rank knows of a sequence, apart from its tokens and block
// table, which follow it in memory. Plain memory.
struct SequenceRow {
  std::uint64_t sequence = 0;  // 0: the slot is free
  std::uint32_t length = 0;    // tokens known
  std::uint32_t prompt_tokens = 0;
  std::uint32_t choice = 0;
  std::uint32_t block_count = 0;
  std::uint32_t bias_count = 0;
  std::uint32_t masked_count = 0;
  SamplingNumbers sampling;
  std::array<RowBias, kMaxLogitBias> bias{};     // ascending tokens
  std::array<TokenId, kMaxStopTokens> masked{};  // ids that min_tokens masks
};

// A live row with its tokens and blocks, where they lie.
struct SequenceView {
  const SequenceRow& row;
  std::span<const TokenId> tokens;
  std::span<const std::uint32_t> blocks;
};

}  // namespace phalanx::step
