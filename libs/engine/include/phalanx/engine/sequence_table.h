// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/engine/table_digest.h"
#include "phalanx/wire/rank_messages.h"

namespace phalanx::engine {

// The live sequences of one rank by slot, with their tokens: what kAttach installs, and what
// attach, detach and sampling of each step change.
//
// Threads: one.
// Failure: a command that contradicts the table is kFailedPrecondition and changes nothing.
// Cost: attach reserves room for max_model_len tokens, so append() does not allocate.
class SequenceTable {
 public:
  SequenceTable(std::uint32_t slots, std::uint32_t max_model_len);

  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(rows_.size()); }
  [[nodiscard]] bool contains(std::uint32_t slot) const { return digest_.contains(slot); }

  // Requires contains(slot). `tokens` includes what has been sampled since.
  [[nodiscard]] const step::SequenceAttach& at(std::uint32_t slot) const { return rows_[slot]; }

  [[nodiscard]] Status attach(const step::SequenceAttach& sequence);
  [[nodiscard]] Status detach(std::uint32_t slot);
  void clear();

  // Is this row range of a step one that the table can serve?
  [[nodiscard]] Status check(const step::StepItem& item) const;

  // Requires contains(slot) and room for it.
  void append(std::uint32_t slot, TokenId token);

  [[nodiscard]] std::uint64_t hash(std::span<const step::StepItem> items) const {
    return digest_.hash(items);
  }

 private:
  std::vector<step::SequenceAttach> rows_;
  TableDigest digest_;
  std::uint32_t max_model_len_;
};

}  // namespace phalanx::engine
