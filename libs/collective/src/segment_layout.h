// SPDX-License-Identifier: Apache-2.0
// Where things lie in a segment. Both mappings of it, the replica's and a rank's, are made by the
// same binary, so plain structs are a sufficient format; the version is checked all the same.
//
//   0                header, written once before any rank has the segment
//   64               abort word, alone in its cache line
//   128              one RankLine per rank
//   slots_offset()   world × 2 halves × slot_bytes
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/collective/segment.h"
#include "phalanx/collective/summation_tree.h"

namespace phalanx::collective {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::uint64_t kSegmentMagic = 0x314D4D4F43584850ULL;  // "PHXCOMM1"
inline constexpr std::uint32_t kSegmentVersion = 1;

struct SegmentHeader {
  std::uint64_t magic;
  std::uint64_t total_bytes;
  std::uint64_t nonce;
  std::uint64_t slot_bytes;
  std::uint32_t version;
  std::uint32_t epoch;
  std::uint32_t world;
  std::uint32_t reserved;
};
static_assert(sizeof(SegmentHeader) <= 64);

struct alignas(64) AbortLine {
  AbortWord word;
};

// Two cache lines, because the hardware fetches lines in pairs. Written by its rank, except
// `sleepers`.
struct alignas(128) RankLine {
  std::atomic<std::uint32_t>
      arrived;  // meetings this rank has come to; the futex its peers wait on
  std::atomic<std::uint32_t> sleepers;  // peers that sleep, or are about to, on `arrived`
  std::atomic<std::uint32_t> joined;    // 1 once a rank has attached here
  std::uint32_t reserved;
  std::atomic<std::uint64_t> tag[2];  // what this rank takes the meeting to be, per half
};

inline constexpr std::size_t kAbortOffset = 64;
inline constexpr std::size_t kRankLinesOffset = 128;
inline constexpr std::size_t kPageBytes = 4096;

[[nodiscard]] constexpr std::size_t round_to_page(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}
[[nodiscard]] constexpr std::size_t slots_offset(std::uint32_t world) {
  return round_to_page(kRankLinesOffset + world * sizeof(RankLine));
}

[[nodiscard]] inline AbortWord& abort_word_of(std::byte* base) {
  return reinterpret_cast<AbortLine*>(base + kAbortOffset)->word;
}
[[nodiscard]] inline const AbortWord& abort_word_of(const std::byte* base) {
  return reinterpret_cast<const AbortLine*>(base + kAbortOffset)->word;
}
[[nodiscard]] inline RankLine& rank_line_of(std::byte* base, std::uint32_t rank) {
  return reinterpret_cast<RankLine*>(base + kRankLinesOffset)[rank];
}

// The header, or why `memory` does not hold one. Copies it: what is checked is what is used.
[[nodiscard]] Result<SegmentHeader> read_header(std::span<const std::byte> memory);

// Errors: kInvalidArgument
[[nodiscard]] Status check_spec(const SegmentSpec& spec);

}  // namespace phalanx::collective
