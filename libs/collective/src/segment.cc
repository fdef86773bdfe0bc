// SPDX-License-Identifier: Apache-2.0
#include "phalanx/collective/segment.h"

#include <cstring>
#include <new>
#include <string>

#include "phalanx/base/check.h"
#include "phalanx/os/futex.h"

#include "segment_layout.h"

namespace phalanx::collective {
namespace {

Status check_memory(std::span<const std::byte> memory, std::size_t needed) {
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % kSegmentAlignment != 0) {
    return invalid_argument("a communicator segment must be aligned to 64 bytes");
  }
  if (memory.size() < needed) {
    return invalid_argument("a communicator segment of " + std::to_string(needed) +
                            " bytes is expected, the mapping has " + std::to_string(memory.size()));
  }
  return ok();
}

}  // namespace

Status check_spec(const SegmentSpec& spec) {
  if (spec.world == 0 || spec.world > kMaxWorld) {
    return invalid_argument("a group has 1 to " + std::to_string(kMaxWorld) + " ranks, came " +
                            std::to_string(spec.world));
  }
  if (spec.slot_bytes < kMinSlotBytes || spec.slot_bytes > kMaxSlotBytes ||
      spec.slot_bytes % 64 != 0) {
    return invalid_argument("a slot has a multiple of 64 bytes from " +
                            std::to_string(kMinSlotBytes) + " to " + std::to_string(kMaxSlotBytes) +
                            ", came " + std::to_string(spec.slot_bytes));
  }
  return ok();
}

std::size_t segment_bytes(std::uint32_t world, std::size_t slot_bytes) {
  PHALANX_CHECK(check_spec({.world = world, .slot_bytes = slot_bytes}), "spec out of bounds");
  return round_to_page(slots_offset(world) + std::size_t{world} * 2 * slot_bytes);
}

Status initialize_segment(std::span<std::byte> memory, const SegmentSpec& spec) {
  PHALANX_RETURN_IF_ERROR(check_spec(spec));
  const std::size_t total = segment_bytes(spec.world, spec.slot_bytes);
  PHALANX_RETURN_IF_ERROR(check_memory(memory, total));
  std::memset(memory.data(), 0, slots_offset(spec.world));
  new (memory.data() + kAbortOffset) AbortLine{};
  for (std::uint32_t rank = 0; rank < spec.world; ++rank) {
    new (memory.data() + kRankLinesOffset + rank * sizeof(RankLine)) RankLine{};
  }
  const SegmentHeader header{.magic = kSegmentMagic,
                             .total_bytes = total,
                             .nonce = spec.nonce,
                             .slot_bytes = spec.slot_bytes,
                             .version = kSegmentVersion,
                             .epoch = spec.epoch.value(),
                             .world = spec.world,
                             .reserved = 0};
  std::memcpy(memory.data(), &header, sizeof(header));
  return ok();
}

Result<SegmentHeader> read_header(std::span<const std::byte> memory) {
  PHALANX_RETURN_IF_ERROR(check_memory(memory, kPageBytes));
  SegmentHeader header{};
  std::memcpy(&header, memory.data(), sizeof(header));
  if (header.magic != kSegmentMagic || header.version != kSegmentVersion) {
    return failed_precondition("not a communicator segment of version " +
                               std::to_string(kSegmentVersion));
  }
  PHALANX_RETURN_IF_ERROR(check_spec({.world = header.world, .slot_bytes = header.slot_bytes}));
  return header;
}

void raise_abort(std::span<std::byte> memory) {
  PHALANX_CHECK(check_memory(memory, kPageBytes), "not a segment");
  abort_word_of(memory.data()).store(1, std::memory_order_seq_cst);
  // A sleeper would see the word at the end of its slice; waking it saves that time. A rank that is
  // just falling asleep misses the wake-up and sleeps one slice. A header that a dying rank has
  // overwritten costs the same.
  const Result<SegmentHeader> header = read_header(memory);
  if (!header || memory.size() < slots_offset(header->world)) {
    return;
  }
  for (std::uint32_t rank = 0; rank < header->world; ++rank) {
    os::futex_wake_all(rank_line_of(memory.data(), rank).arrived);
  }
}

bool abort_raised(std::span<const std::byte> memory) {
  PHALANX_CHECK(check_memory(memory, kPageBytes), "not a segment");
  return abort_word_of(memory.data()).load(std::memory_order_acquire) != 0;
}

}  // namespace phalanx::collective
