// SPDX-License-Identifier: Apache-2.0
// The shared memory of one epoch of a rank group. The replica makes a segment, initialises it and
// passes its descriptor to every rank; a new epoch is a new segment, so a straggler of an older one
// writes where nobody reads. The replica keeps a mapping only to raise the abort word.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"

namespace phalanx::collective {

inline constexpr std::size_t kSegmentAlignment = 64;
inline constexpr std::size_t kMinSlotBytes = 4096;
inline constexpr std::size_t kMaxSlotBytes = std::size_t{64} << 20;

// What a good default is: large payloads go through in chunks that stay in the L2 cache.
inline constexpr std::size_t kDefaultSlotBytes = std::size_t{128} << 10;

// Identity and shape of a segment. Both sides must name the same one.
struct SegmentSpec {
  Epoch epoch{};
  std::uint32_t world = 1;  // 1 … kMaxWorld
  std::uint64_t nonce = 0;  // random per epoch: tells apart two segments of equal epoch
  std::size_t slot_bytes = kDefaultSlotBytes;  // what one rank publishes at once; a multiple of 64
  friend bool operator==(const SegmentSpec&, const SegmentSpec&) = default;
};

// Bytes that a segment takes, a multiple of 4096. Requires a world and slot size within bounds.
[[nodiscard]] std::size_t segment_bytes(std::uint32_t world, std::size_t slot_bytes);

// Writes the header and clears every word. `memory` is a fresh mapping that no rank has yet.
//
// Errors: kInvalidArgument  spec out of bounds, `memory` too small or not 64-byte aligned
[[nodiscard]] Status initialize_segment(std::span<std::byte> memory, const SegmentSpec& spec);

// Ends the epoch: every wait of every rank returns kAborted within 1 ms, and so does every later
// operation. Cannot be undone. Safe in any process that maps the segment, from any thread, also
// while ranks crash. Requires an initialised segment.
void raise_abort(std::span<std::byte> memory);

// Whether the abort word is raised. Requires an initialised segment.
[[nodiscard]] bool abort_raised(std::span<const std::byte> memory);

// The word that kernels poll between tiles: non-zero = stop and return kAborted.
using AbortWord = std::atomic<std::uint32_t>;

}  // namespace phalanx::collective
