// SPDX-License-Identifier: Apache-2.0
// What a replica tells its ranks about sequences and steps, whatever carries it.
#pragma once

#include <cstdint>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/step/sampling.h"

namespace phalanx::step {

// A sequence as a rank knows it. `slot` is its row in the sequence table, unique among live
// sequences.
struct SequenceAttach {
  std::uint32_t slot = 0;
  std::uint64_t sequence = 0;       // never reused within a replica incarnation
  std::vector<TokenId> tokens{};    // prompt, then produced so far
  std::uint32_t prompt_tokens = 0;  // how many of `tokens` are prompt
  std::uint32_t choice = 0;         // for the random key
  SamplingParams sampling{};
  std::vector<TokenId> masked_until_min_tokens{};  // ids that min_tokens masks
  std::vector<std::uint32_t> blocks{};             // its block table so far
  friend bool operator==(const SequenceAttach&, const SequenceAttach&) = default;
};

// One row range of a step: compute positions [start, start + count) of the sequence in `slot`.
struct StepItem {
  std::uint32_t slot = 0;
  std::uint64_t sequence = 0;
  std::uint32_t start = 0;        // absolute position of the first token
  std::uint32_t count = 0;        // ≥ 1; the inputs are the sequence's tokens at those positions
  bool sample = false;            // draw the token at position start + count
  std::uint32_t held_blocks = 0;  // entries that the block table has before this step
  std::vector<std::uint32_t> blocks{};  // what this step adds to it: all cover start + count tokens
  friend bool operator==(const StepItem&, const StepItem&) = default;
};

}  // namespace phalanx::step
