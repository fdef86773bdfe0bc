// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "phalanx/base/ids.h"

namespace phalanx::engine {

// The KV blocks of one replica by number, with reference counts. It knows no memory: block b is the
// same range of every rank's KV. A value, copied and compared with the scheduler it belongs to.
//
// A block of count 1 has one sequence that may write it; a shared block (count > 1) is full and
// immutable (S8). A block is handed out again as soon as its count is zero, so the owner releases
// only what no dispatched step can still read.
//
// Failure: misuse (an unknown, free or overshared block) is a defect of ours and ends the process.
class BlockPool {
 public:
  explicit BlockPool(std::uint32_t blocks);

  [[nodiscard]] std::uint32_t total() const { return static_cast<std::uint32_t>(counts_.size()); }
  [[nodiscard]] std::uint32_t free() const { return static_cast<std::uint32_t>(free_.size()); }

  // The block that the (n + 1)-th acquire() from now returns. Requires n < free().
  [[nodiscard]] BlockId peek(std::uint32_t n) const;

  // Takes a free block, its count becoming 1. Requires free() > 0.
  BlockId acquire();

  // Adds a reader of a full block.
  void share(BlockId block);

  // Drops one reference. At zero the block is free, and the next to be handed out: the most
  // recently used memory is the warmest.
  void release(BlockId block);

  [[nodiscard]] std::uint32_t references(BlockId block) const;

  friend bool operator==(const BlockPool&, const BlockPool&) = default;

 private:
  std::vector<std::uint32_t> counts_;
  std::vector<BlockId> free_;  // the last is the next
};

}  // namespace phalanx::engine
