// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "phalanx/http/journal.h"
#include "phalanx/wire/front_journal.h"

namespace phalanx::front {

// What stands in the memory of the journals beside what the leader knows (wire/front_journal.h), as
// proto/front-journal.md says. Another layout is another wire::kJournalFormat.

// http::ConnectionState, field by field.
struct StoredState {
  std::uint8_t stage = 0;
  std::uint8_t keep_alive = 0;
  std::uint8_t http_1_1 = 0;
  std::uint8_t chunked = 0;
  std::uint8_t is_sse = 0;
  std::uint8_t head_only = 0;
  std::uint8_t continued = 0;
  std::uint8_t in_body = 0;
  std::uint32_t ordinal = 0;
  std::uint32_t deadline_ms = 0;
  std::uint64_t request_begin = 0;
  std::uint64_t request_end = 0;
  std::uint64_t drawn_id = 0;
  http::HandlerNotes notes{};
};

// Where the bytes of one direction lie: a chain of blocks, of which only the last may have room.
struct StoredChain {
  std::uint64_t at = 0;     // offset of the first byte of the first block
  std::uint32_t first = 0;  // number of that block; 0: there is none
  std::uint32_t reserved = 0;
};

struct JournalSlot {
  StoredState state;
  StoredChain in;
  StoredChain out;
  std::uint64_t out_end = 0;  // offset behind the last rendered byte
};

struct JournalRecord {
  wire::JournalOwner owner;
  std::array<JournalSlot, 2> slots;  // `owner.published` modulo 2 is the one that holds
};

static_assert(sizeof(StoredState) == 72 && sizeof(JournalSlot) == 112);
static_assert(sizeof(JournalRecord) == 240 && sizeof(JournalRecord) <= wire::kJournalRecordBytes);
static_assert(std::is_trivially_copyable_v<JournalRecord>);
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);

// Blocks are numbered from 1; 0 is none.
struct BlockHead {
  std::uint32_t next = 0;   // of the chain
  std::uint32_t owner = 0;  // the connection, modulo 2^32
};

inline constexpr std::size_t kBlockBytes = std::size_t{32} << 10U;
inline constexpr std::size_t kPayloadBytes = kBlockBytes - sizeof(BlockHead);

constexpr std::size_t journal_blocks_offset(std::uint32_t places) {
  return (wire::journal_record_offset(places) + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

// A store behind all earlier ones and before all later ones, as a process sees it that reads the
// memory when this one is dead. A process is killed between two instructions, and those before have
// taken place: it is the compiler's order that counts, and a release alone would let later
// stores pass it.
template <typename Word>
void store_in_order(Word& target, Word value) {
  std::atomic_ref<Word>(target).store(value, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace phalanx::front
