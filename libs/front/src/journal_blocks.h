// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "journal_layout.h"

namespace phalanx::front {

// Which blocks of the memory are free. That is known to this process only: who reads the memory
// later follows chains and asks for nothing else.
//
// A block's pages are memory from when they are first written to, so that a stream of small events
// costs two pages and not two blocks. Where the machine has no page left that ends the front, as it
// would anywhere else.
//
// Ownership: borrows the memory. Threads: one. Blocks: never.
class JournalBlocks {
 public:
  explicit JournalBlocks(std::span<std::byte> memory);

  // A block for the connection, last of its chain; 0 if there is none. The one that was freed last,
  // so that few pages are touched over and over.
  [[nodiscard]] std::uint32_t take(std::uint64_t connection);

  // Blocks that no published state names. Of those that have been free for longest, beyond a number
  // that is worth keeping, a few are given back to the kernel in each call.
  void free(std::span<const std::uint32_t> blocks);

  // The same, beyond a smaller number: those that were in use since the last call but one of
  // end_second(), and some. Whether there are more.
  [[nodiscard]] bool give_back_some();
  void end_second();

  // Makes `next` the block behind `last`. What a dead process has put into it is found from here
  // on.
  void link(std::uint32_t last, std::uint32_t next);

  [[nodiscard]] char* payload(std::uint32_t block) const;
  [[nodiscard]] std::size_t in_use() const { return in_use_; }
  [[nodiscard]] std::uint64_t shortages() const { return shortages_; }  // times take() had none

 private:
  [[nodiscard]] std::byte* memory_of(std::uint32_t block) const;
  [[nodiscard]] BlockHead& head(std::uint32_t block) const;
  void discard_some(std::size_t kept);

  std::span<std::byte> memory_;
  std::uint32_t count_;
  std::uint32_t touched_ = 0;        // blocks up to this number have been handed out before
  std::deque<std::uint32_t> free_;   // with their pages; last freed at the end
  std::vector<std::uint32_t> bare_;  // free, without pages
  std::size_t in_use_ = 0;
  std::size_t peak_ = 0;       // of that, in this second
  std::size_t last_peak_ = 0;  // in the one before
  std::uint64_t shortages_ = 0;
};

}  // namespace phalanx::front
