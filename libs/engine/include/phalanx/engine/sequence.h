// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/engine/sequence_tokens.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::engine {

// One sequence of one replica incarnation. Counted from 1 in order of arrival and never reused, so
// that it is also the order in which sequences are served.
using SequenceId = Id<struct SequenceIdTag, std::uint64_t>;

// A published block that holds what full block `index` of a sequence does. It stands for that block
// in the prefix cache, and is held with it.
struct TwinBlock {
  std::uint32_t index = 0;
  BlockId block;
  friend bool operator==(const TwinBlock&, const TwinBlock&) = default;
};

// What a scheduler knows about one sequence. A value: equal fields mean equal behaviour from here
// on.
//
// `tokens` is prompt, then produced (by earlier attempts and by this one). KV exists for the first
// `computed` of them; the newest token has none until the step that draws its successor. A sequence
// without a slot waits; one with a slot runs, and its row of the ranks' sequence tables is `slot`.
struct Sequence {
  SequenceId id;
  wire::SequenceKey key;
  SequenceTokens tokens;  // with hashes where there is a prefix cache
  std::uint32_t prompt_tokens = 0;
  std::uint32_t submitted_tokens = 0;  // prompt and history; what exceeds it was produced here
  std::uint32_t token_limit = 0;       // of prompt and produced together
  step::SamplingParams sampling;
  step::StopParams stop;

  std::string cache_salt;  // shares KV only with sequences of the same salt

  std::uint32_t computed = 0;
  std::vector<BlockId> blocks;  // block i holds the KV of tokens [32 i, 32 i + 32)
  std::uint32_t published = 0;  // so many blocks from the first on are in the prefix cache
  bool publishes = true;        // not if another sequence has published its next block before it
  std::optional<TwinBlock> twin;
  std::optional<std::uint32_t> cached_tokens;  // of the prompt, when it was admitted first
  std::optional<std::uint32_t> slot;
  bool cancelled = false;
  std::uint32_t passed = 0;  // younger sequences admitted before this one

  [[nodiscard]] std::uint32_t length() const { return static_cast<std::uint32_t>(tokens.size()); }
  [[nodiscard]] std::uint32_t produced() const { return length() - prompt_tokens; }
  [[nodiscard]] std::uint32_t uncomputed() const { return length() - computed; }

  // The remainders that the leader's ledger holds. The newest token produced here is computed by
  // the step that draws the next one, so it counts as generation and not as computation.
  [[nodiscard]] std::uint32_t to_compute() const {
    return uncomputed() - (length() > submitted_tokens ? 1U : 0U);
  }
  [[nodiscard]] std::uint32_t to_generate() const {
    return token_limit > length() ? token_limit - length() : 0;
  }

  friend bool operator==(const Sequence&, const Sequence&) = default;
};

}  // namespace phalanx::engine
