// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "phalanx/base/ids.h"

namespace phalanx::engine {

// The KV blocks of one replica by number, with reference counts. It knows no memory: block b is the
// same range of every rank's KV. A value, copied and compared with the scheduler it belongs to.
//
// A block that was never used is handed out only when no used one is free, and then the lowest, so
// that blocks 0 … touched() - 1 are all that ever needed memory. A free block whose contents are
// kept can be shared again; it is handed out only once it has been given up.
//
// A block of count 1 has one sequence that may write it; a shared block (count > 1) is full and
// immutable (S8). A block is handed out again as soon as its count is zero: ranks compute steps in
// order, so a step that may still touch it is done with it before the one that uses it next.
//
// Failure: misuse (an unknown, free or overshared block) is a defect of ours and ends the process.
class BlockPool {
 public:
  explicit BlockPool(std::uint32_t blocks);

  [[nodiscard]] std::uint32_t total() const { return static_cast<std::uint32_t>(counts_.size()); }
  // Blocks that are free and below the limit.
  [[nodiscard]] std::uint32_t free() const {
    return static_cast<std::uint32_t>(released_.size() + kept_.size()) + limit_ - touched_;
  }
  [[nodiscard]] std::uint32_t kept() const { return static_cast<std::uint32_t>(kept_.size()); }

  // Blocks handed out at least once since the pool was new, or untouch() was called.
  [[nodiscard]] std::uint32_t touched() const { return touched_; }

  // Only blocks below the limit are handed out: the rest count as used. At first all of them.
  // Requires touched() ≤ limit ≤ total().
  [[nodiscard]] std::uint32_t limit() const { return limit_; }
  void set_limit(std::uint32_t limit);

  // Every block is as if it was never used; nothing is kept. Requires that none is in use.
  void untouch();

  // The `count` free blocks to take next, in this order: released ones, latest first; kept ones,
  // earliest released first, and only as many as the others fall short of (give_up() each before
  // take()); untouched ones, lowest first. Never one of `shared`, kept blocks that are about to be
  // shared. Requires count + shared.size() ≤ free().
  [[nodiscard]] std::vector<BlockId> peek(std::uint32_t count,
                                          const std::set<BlockId>& shared = {}) const;

  // What a kept block holds is not wanted any more.
  void give_up(BlockId block);

  // Takes this free block, which is not kept, its count becoming 1. Those before a new one count as
  // used.
  void take(BlockId block);

  // Adds a reader of a full block, which is in use or kept.
  void share(BlockId block);

  // Drops one reference. At zero the block is free, and the next to be handed out: the most
  // recently used memory is the warmest. With `keep` it is kept.
  void release(BlockId block, bool keep = false);

  // 0 for a free block, also for a kept one.
  [[nodiscard]] std::uint32_t references(BlockId block) const;

  friend bool operator==(const BlockPool&, const BlockPool&) = default;

 private:
  void unkeep(BlockId block);

  std::vector<std::uint32_t> counts_;
  std::deque<BlockId> released_;              // used before and free; the last is the next
  std::map<std::uint64_t, BlockId> kept_;     // by the time of their release, counted
  std::map<BlockId, std::uint64_t> kept_at_;  // the same the other way round
  std::uint64_t releases_ = 0;                // with `keep`
  std::uint32_t touched_ = 0;
  std::uint32_t limit_ = 0;
};

}  // namespace phalanx::engine
