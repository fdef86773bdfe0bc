// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/block_pool.h"

#include "phalanx/base/check.h"

namespace phalanx::engine {

BlockPool::BlockPool(std::uint32_t blocks) : counts_(blocks, 0) {
  free_.reserve(blocks);
  for (std::uint32_t i = blocks; i > 0; --i) {
    free_.emplace_back(i - 1);
  }
}

BlockId BlockPool::peek(std::uint32_t n) const {
  PHALANX_CHECK(n < free_.size(), "no such free block");
  return free_[free_.size() - 1 - n];
}

BlockId BlockPool::acquire() {
  PHALANX_CHECK(!free_.empty(), "no free block");
  const BlockId block = free_.back();
  free_.pop_back();
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
    free_.push_back(block);
  }
}

std::uint32_t BlockPool::references(BlockId block) const {
  PHALANX_CHECK(block.value() < counts_.size(), "no such block");
  return counts_[block.value()];
}

}  // namespace phalanx::engine
