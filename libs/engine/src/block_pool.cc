// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/block_pool.h"

#include <algorithm>
#include <iterator>

#include "phalanx/base/check.h"

namespace phalanx::engine {

BlockPool::BlockPool(std::uint32_t blocks) : counts_(blocks, 0), limit_(blocks) {}

void BlockPool::set_limit(std::uint32_t limit) {
  PHALANX_CHECK(limit >= touched_ && limit <= total(), "a limit between what is used and all");
  limit_ = limit;
}

void BlockPool::untouch() {
  PHALANX_CHECK(released_.size() + kept_.size() == touched_, "a block is in use");
  released_.clear();
  kept_.clear();
  kept_at_.clear();
  touched_ = 0;
}

std::vector<BlockId> BlockPool::peek(std::uint32_t count, const std::set<BlockId>& shared) const {
  PHALANX_CHECK(count + shared.size() <= free(), "not so many blocks are free");
  const std::size_t others = released_.size() + limit_ - touched_;
  std::size_t from_kept = count > others ? count - others : 0;
  std::vector<BlockId> blocks;
  blocks.reserve(count);
  for (auto next = released_.rbegin(); blocks.size() < count && next != released_.rend(); ++next) {
    blocks.push_back(*next);
  }
  for (auto next = kept_.begin(); from_kept > 0; ++next) {
    if (!shared.contains(next->second)) {
      blocks.push_back(next->second);
      --from_kept;
    }
  }
  for (std::uint32_t next = touched_; blocks.size() < count; ++next) {
    blocks.emplace_back(next);
  }
  return blocks;
}

void BlockPool::give_up(BlockId block) {
  unkeep(block);
  released_.push_front(block);
}

void BlockPool::take(BlockId block) {
  PHALANX_CHECK(block.value() < limit_ && references(block) == 0 && !kept_at_.contains(block),
                "the block is not free, or kept");
  if (block.value() < touched_) {
    // What is taken was released lately: the search is short.
    const auto found = std::find(released_.rbegin(), released_.rend(), block);
    released_.erase(std::next(found).base());
  } else {
    for (; touched_ < block.value(); ++touched_) {
      released_.emplace_front(touched_);
    }
    ++touched_;
  }
  counts_[block.value()] = 1;
}

void BlockPool::share(BlockId block) {
  if (references(block) == 0) {
    unkeep(block);
  }
  ++counts_[block.value()];
}

void BlockPool::release(BlockId block, bool keep) {
  PHALANX_CHECK(references(block) > 0, "the block is free already");
  if (--counts_[block.value()] > 0) {
    return;
  }
  if (keep) {
    kept_.emplace(releases_, block);
    kept_at_.emplace(block, releases_++);
  } else {
    released_.push_back(block);
  }
}

void BlockPool::unkeep(BlockId block) {
  const auto kept = kept_at_.find(block);
  PHALANX_CHECK(kept != kept_at_.end(), "the block is not kept");
  kept_.erase(kept->second);
  kept_at_.erase(kept);
}

std::uint32_t BlockPool::references(BlockId block) const {
  PHALANX_CHECK(block.value() < counts_.size(), "no such block");
  return counts_[block.value()];
}

}  // namespace phalanx::engine
