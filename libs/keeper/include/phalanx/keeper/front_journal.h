// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "phalanx/base/result.h"
#include "phalanx/os/memfd.h"
#include "phalanx/os/unique_fd.h"
#include "phalanx/wire/front_journal.h"

namespace phalanx::keeper {

// The journal of one life of a front (wire/front_journal.h), as the leader sees it: it makes the
// journal, and after the front's death reads whose records are in it. Memory is taken as the front
// writes, and is free when nobody holds the journal any more.
//
// Threads: one. Blocks: never.
class FrontJournal {
 public:
  using Marks = std::array<std::uint64_t, wire::kJournalMarks>;

  // The size of a journal for `places` records and `own_bytes` of the front's own, in whole pages.
  [[nodiscard]] static std::uint64_t bytes_of(std::uint32_t places, std::uint64_t own_bytes);

  // An empty one, whose header is written. `bytes` has room for its records.
  // Errors: as os::Memfd::reserve(); kResourceExhausted if this process may not have files of that
  //         size; those of the kernel
  [[nodiscard]] static Result<std::shared_ptr<FrontJournal>> create(std::uint64_t bytes,
                                                                    std::uint32_t places);

  // For the front, to write; after close_for_writing() for its successors, to read.
  [[nodiscard]] int fd() const { return reading_.valid() ? reading_.get() : memory_.fd(); }

  // The front is dead: fd() can only be read from now on.
  // Errors: those of the kernel; the journal stays as it was
  [[nodiscard]] Status close_for_writing();

  // Whether something is kept of the connection at that place.
  [[nodiscard]] bool holds(std::uint32_t place, std::uint64_t connection) const;

  // Whether the record at that place is the connection's, even if nothing could be kept in it.
  [[nodiscard]] bool knows(std::uint32_t place, std::uint64_t connection) const;

  // The connections that the front's threads work for; 0: none.
  [[nodiscard]] Marks marks() const;

  // Gives a piece of its memory back to the kernel, which takes about a millisecond. Requires that
  // nobody reads it any more. False: nothing is left.
  [[nodiscard]] bool give_back_some() { return memory_.give_back_first(kGivenBackAtOnce); }

 private:
  static constexpr std::size_t kGivenBackAtOnce = std::size_t{4} << 20;

  [[nodiscard]] wire::JournalOwner owner(std::uint32_t place) const;

  FrontJournal(os::Memfd memory, std::uint32_t places)
      : memory_(std::move(memory)), places_(places) {}

  os::Memfd memory_;
  os::UniqueFd reading_;  // after close_for_writing()
  std::uint32_t places_;
};

}  // namespace phalanx::keeper
