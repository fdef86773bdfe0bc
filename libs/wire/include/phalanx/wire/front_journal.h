// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace phalanx::wire {

// The memory in which a front keeps what another one needs to go on in the middle of a request or
// of an answer (proto/front-journal.md): a memfd that the leader makes for each life of a front,
// and hands to the next one when that has died. Of it the leader reads only what stands here, and
// only behind the death of who wrote it. All numbers are little-endian, as the machine has them.
//
//   0                                     JournalHeader
//   kJournalHeaderBytes + place × kJournalRecordBytes   a record, which begins with a JournalOwner
//   behind the last record                the rest is the front's own
inline constexpr std::uint64_t kJournalMagic = 0x4c4e'524a'584c'4850;  // "PHLXJRNL"

// Of the memory and of what is rendered into it: an answer is finished by a front of the same number
// or not at all.
inline constexpr std::uint32_t kJournalFormat = 3;

inline constexpr std::size_t kJournalHeaderBytes = 4096;
inline constexpr std::size_t kJournalRecordBytes = 512;
inline constexpr std::uint32_t kMaxJournalPlaces = 1U << 17U;

// A connection that has none: nothing of it is kept.
inline constexpr std::uint32_t kNoJournalPlace = ~std::uint32_t{0};

// Threads of a front that work for a connection: its loop and two pools.
inline constexpr std::size_t kJournalMarks = 3;

struct JournalHeader {
  std::uint64_t magic = 0;
  std::uint32_t format = 0;
  std::uint32_t places = 0;
  // Of each thread: the connection that it works for, or 0. Who is marked when a front crashes is
  // suspected of it.
  std::array<std::uint64_t, kJournalMarks> marks{};
};

struct JournalOwner {
  std::uint64_t connection = 0;  // 0: nobody's
  std::uint32_t published = 0;   // 0: nothing is kept yet
  std::uint32_t reserved = 0;
};

constexpr std::size_t journal_record_offset(std::uint32_t place) {
  return kJournalHeaderBytes + std::size_t{place} * kJournalRecordBytes;
}

}  // namespace phalanx::wire
