// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sequence_row.h"

namespace phalanx::step {

// What a replica and its ranks must agree on about the sequence table (S9): per slot the sequence,
// its sampling, the value of every token, which of them are prompt, and every entry of its block
// table; and for the rows of the last step their positions. It depends on the present state only,
// not on how it came about, so a rank that has just attached reports what a rank reports that was
// there all along.
//
// Threads: one.
// Cost:    hash() is linear in slots and rows, not in tokens or blocks.
class TableDigest {
 public:
  explicit TableDigest(std::uint32_t slots);

  void clear();

  // Both require slot < slots and a sequence. Equal contents give equal digests.
  void attach(const SequenceAttach& sequence);
  void attach(std::uint32_t slot, const SequenceView& sequence);

  void detach(std::uint32_t slot);

  // Both require contains(slot).
  void append(std::uint32_t slot, TokenId token);
  void extend(std::uint32_t slot, std::span<const std::uint32_t> blocks);

  [[nodiscard]] bool contains(std::uint32_t slot) const {
    return slot < rows_.size() && rows_[slot].sequence != 0;
  }

  // After a command; `items` are those of a step, and empty for every other operation.
  [[nodiscard]] std::uint64_t hash(std::span<const StepItem> items) const;

 private:
  struct Row {
    std::uint64_t sequence = 0;  // 0: free
    std::uint64_t parameters = 0;
    std::uint64_t tokens = 0;  // chained over the values, in order
    std::uint64_t blocks = 0;  // likewise
    std::uint32_t length = 0;
    std::uint32_t block_count = 0;
  };
  template <typename Sequence>
  void attach_any(std::uint32_t slot, const Sequence& sequence);

  std::vector<Row> rows_;
};

}  // namespace phalanx::step
