// SPDX-License-Identifier: Apache-2.0
#include "journal_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace phalanx::front {

namespace {

// What fronts at work use again within moments: 64 MB …
constexpr std::size_t kFreeBlocksKept = 2048;

// … and what is kept beside as much as is in use when no moment has come: 8 MB.
constexpr std::size_t kFreeBlocksAtRest = 256;

// Each costs some microseconds.
constexpr int kBlocksDiscardedAtOnce = 16;

}  // namespace

JournalBlocks::JournalBlocks(std::span<std::byte> memory)
    : memory_(memory),
      count_(static_cast<std::uint32_t>(std::min<std::size_t>(
          memory.size() / kBlockBytes, std::numeric_limits<std::uint32_t>::max()))) {}

std::uint32_t JournalBlocks::take(std::uint64_t connection) {
  std::uint32_t block = 0;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else if (!bare_.empty()) {
    block = bare_.back();
    bare_.pop_back();
  } else if (touched_ < count_) {
    block = ++touched_;
  } else {
    ++shortages_;
    return 0;
  }
  ++in_use_;
  peak_ = std::max(peak_, in_use_);
  head(block) = BlockHead{.next = 0, .owner = static_cast<std::uint32_t>(connection)};
  return block;
}

void JournalBlocks::free(std::span<const std::uint32_t> blocks) {
  for (const std::uint32_t block : blocks) {
    free_.push_back(block);
  }
  in_use_ -= blocks.size();
  discard_some(kFreeBlocksKept);
}

void JournalBlocks::end_second() {
  last_peak_ = std::exchange(peak_, in_use_);
}

bool JournalBlocks::give_back_some() {
  // What was in use of late may be so again.
  const std::size_t again = std::max(peak_, last_peak_) - in_use_;
  const std::size_t kept = std::min(kFreeBlocksKept, again + kFreeBlocksAtRest);
  discard_some(kept);
  return free_.size() > kept;
}

void JournalBlocks::discard_some(std::size_t kept) {
  for (int i = 0; i < kBlocksDiscardedAtOnce && free_.size() > kept; ++i) {
    const std::uint32_t block = free_.front();
    free_.pop_front();
    // Where the kernel does not take the pages, they are only used later than others.
    static_cast<void>(::madvise(memory_of(block), kBlockBytes, MADV_REMOVE));
    bare_.push_back(block);
  }
}

void JournalBlocks::link(std::uint32_t last, std::uint32_t next) {
  store_in_order(head(last).next, next);
}

std::byte* JournalBlocks::memory_of(std::uint32_t block) const {
  return memory_.data() + std::size_t{block - 1} * kBlockBytes;
}

BlockHead& JournalBlocks::head(std::uint32_t block) const {
  return *reinterpret_cast<BlockHead*>(memory_of(block));
}

char* JournalBlocks::payload(std::uint32_t block) const {
  return reinterpret_cast<char*>(memory_of(block) + sizeof(BlockHead));
}

}  // namespace phalanx::front
