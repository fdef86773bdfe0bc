// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/wire/rank_messages.h"

namespace phalanx::engine {

// What a replica and its ranks must agree on about the sequence table (S9): per slot the sequence,
// its length, how much of it was produced, its sampling and the value of every token, and for the
// rows of the last step also positions and blocks. It depends on the present state only, not on how
// it came about, so a rank that has just attached reports what a rank reports that was there all
// along.
//
// Threads: one.
// Cost: hash() is linear in slots and rows, not in tokens.
class TableDigest {
 public:
  explicit TableDigest(std::uint32_t slots);

  void clear();
  void attach(const step::SequenceAttach& sequence);  // requires slot < slots
  void detach(std::uint32_t slot);
  void append(std::uint32_t slot, TokenId token);  // requires contains(slot)

  [[nodiscard]] bool contains(std::uint32_t slot) const {
    return slot < rows_.size() && rows_[slot].sequence != 0;
  }

  // After a command; `items` are those of a step, and empty for every other operation.
  [[nodiscard]] std::uint64_t hash(std::span<const step::StepItem> items) const;

 private:
  struct Row {
    std::uint64_t sequence = 0;  // 0: free
    std::uint64_t parameters = 0;
    std::uint64_t tokens = 0;  // chained over the values
    std::uint32_t length = 0;
    std::uint32_t produced = 0;
  };
  std::vector<Row> rows_;
};

}  // namespace phalanx::engine
