// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "phalanx/model/weight_arena.h"

namespace phalanx::model {

inline constexpr std::size_t kArenaHeaderBytes = 4096;

// The first bytes of an arena. `magic` is written last, so that a loader that was killed leaves no
// arena behind.
struct ArenaHeader {
  static constexpr std::uint64_t kMagic = 0x414E4552584C4850ULL;  // "PHLXRENA" in memory

  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t ranks = 0;  // that `o` and `down` are laid out for
  std::uint64_t bytes = 0;
  std::uint64_t key = 0;
  std::uint64_t config_hash = 0;
  std::uint64_t content_hash = 0;
};
static_assert(sizeof(ArenaHeader) <= kArenaHeaderBytes);

// Bytes of a packed matrix of the arena with `columns` outputs and `k` inputs; of so many columns
// of one when `columns` is a multiple of a strip.
inline std::size_t packed_bytes(kernels::WeightFormat format, std::size_t columns, std::size_t k) {
  return kernels::weight_bytes(format, k, columns);
}

}  // namespace phalanx::model
