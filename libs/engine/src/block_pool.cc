// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/block_pool.h"

#include "phalanx/base/check.h"

namespace phalanx::engine {

BlockPool::BlockPool(std::uint32_t blocks) : counts_(blocks, 0), limit_(blocks) {}

void BlockPool::set_limit(std::uint32_t limit) {
  PHALANX_CHECK(limit >= touched_ && limit <= total(), "a limit between what is used and all");
  limit_ = limit;
}

void BlockPool::untouch() {
  PHALANX_CHECK(released_.size() == touched_, "a block is in use");
  released_.clear();
  touched_ = 0;
}

BlockId BlockPool::peek(std::uint32_t n) const {
  PHALANX_CHECK(n < free(), "no such free block");
  const auto released = static_cast<std::uint32_t>(released_.size());
  return n < released ? released_[released - 1 - n] : BlockId(touched_ + n - released);
}

BlockId BlockPool::acquire() {
  const BlockId block = peek(0);
  if (released_.empty()) {
    ++touched_;
  } else {
    released_.pop_back();
  }
  counts_[block.value()] = 1;
  return block;
}

void BlockPool::share(BlockId block) {
  PHALANX_CHECK(references(block) > 0, "a free block cannot be shared");
  ++counts_[block.value()];
}

void BlockPool::release(BlockId block) {
  PHALANX_CHECK(references(block) > 0, "the block is free already");
  if (--counts_[block.value()] == 0) {
    released_.push_back(block);
  }
}

std::uint32_t BlockPool::references(BlockId block) const {
  PHALANX_CHECK(block.value() < counts_.size(), "no such block");
  return counts_[block.value()];
}

}  // namespace phalanx::engine
