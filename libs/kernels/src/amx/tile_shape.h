// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

inline constexpr std::size_t kTileRegisterRows = 16;
inline constexpr std::size_t kTileRegisterBytes = 64;  // of a row

// What the tile registers are configured for.
struct TileShape {
  std::size_t rows[2];  // of the tiles of activations; 1 … 16, the second 0 where there is one
  std::size_t k_bytes;  // of a row of activations in one product; a multiple of 4, at most 64
};

PHALANX_LANES TileShape tile_shape(std::size_t rows, std::size_t k_bytes) {
  const std::size_t first = rows < kTileRegisterRows ? rows : kTileRegisterRows;
  const std::size_t left = rows - first;
  return {{first, left < kTileRegisterRows ? left : kTileRegisterRows}, k_bytes};
}

}  // namespace
}  // namespace phalanx::kernels
