// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products of up to 2 × 2 tiles: each tile that is loaded is used twice, as there are registers
// for.

#include <cstddef>
#include <cstdint>

#include "amx/tile_shape.h"
#include "lanes/dot_body.h"
#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

// How far ahead of what is read a stream of weights is fetched.
inline constexpr std::ptrdiff_t kPrefetchBytes = 4096;

enum class TileDot { kBf16, kInt8 };

// Where the tiles of one product begin.
struct TileOperands {
  const std::byte* rows;
  std::size_t row_stride;  // bytes from row to row
  const std::byte* columns;
  std::size_t strip_stride;  // bytes from strip to strip
};

// Calls visit.operator()<row, column>() for the sums of so many tiles of rows and strips.
template <int kRows, int kColumns, typename Visit>
PHALANX_LANES void for_each_sum(const Visit& visit) {
  visit.template operator()<0, 0>();
  if constexpr (kColumns == 2) {
    visit.template operator()<0, 1>();
  }
  if constexpr (kRows == 2) {
    visit.template operator()<1, 0>();
  }
  if constexpr (kRows == 2 && kColumns == 2) {
    visit.template operator()<1, 1>();
  }
}

template <int kRows, int kColumns, typename Tiles>
PHALANX_LANES void zero_sums(Tiles& tiles) {
  for_each_sum<kRows, kColumns>(
      [&]<int kRow, int kColumn>() { tiles.template zero<kRow, kColumn>(); });
}

template <TileDot kDot, int kRow, int kColumn, typename Tiles>
PHALANX_LANES void add_tile(Tiles& tiles) {
  if constexpr (kDot == TileDot::kBf16) {
    tiles.template dpbf16<kRow, kColumn>();
  } else {
    tiles.template dpbsud<kRow, kColumn>();
  }
}

// sums += rows × columns, over as much of K as a tile holds.
template <TileDot kDot, int kRows, int kColumns, typename Tiles>
PHALANX_LANES void add_step(Tiles& tiles, const TileOperands& from) {
  tiles.template load_rows<0>(from.rows, from.row_stride);
  tiles.template stream_columns<0>(from.columns);
  add_tile<kDot, 0, 0>(tiles);
  if constexpr (kColumns == 2) {
    tiles.template stream_columns<1>(from.columns + from.strip_stride);
    add_tile<kDot, 0, 1>(tiles);
  }
  if constexpr (kRows == 2) {
    tiles.template load_rows<1>(from.rows + kTileRegisterRows * from.row_stride, from.row_stride);
    add_tile<kDot, 1, 0>(tiles);
  }
  if constexpr (kRows == 2 && kColumns == 2) {
    add_tile<kDot, 1, 1>(tiles);
  }
}

// Where sums lie in memory: rows and strips so many bytes apart.
struct TileSumsAt {
  std::byte* first;
  std::size_t row_stride;
  std::size_t strip_stride;

  [[nodiscard]] PHALANX_LANES std::byte* of(std::size_t row, std::size_t column) const {
    return first + row * kTileRegisterRows * row_stride + column * strip_stride;
  }
};

template <int kRows, int kColumns, typename Tiles>
PHALANX_LANES void store_sums(Tiles& tiles, const TileSumsAt& to) {
  for_each_sum<kRows, kColumns>([&]<int kRow, int kColumn>() {
    tiles.template store<kRow, kColumn>(to.of(kRow, kColumn), to.row_stride);
  });
}

template <int kRows, int kColumns, typename Tiles>
PHALANX_LANES void load_sums(Tiles& tiles, const TileSumsAt& from) {
  for_each_sum<kRows, kColumns>([&]<int kRow, int kColumn>() {
    tiles.template load<kRow, kColumn>(from.of(kRow, kColumn), from.row_stride);
  });
}

// Fetches what a later step reads of the strips, `bytes` of each.
template <int kColumns>
PHALANX_LANES void prefetch_strips(const TileOperands& from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 64) {
    for (std::size_t strip = 0; strip < kColumns; ++strip) {
      prefetch(from.columns + strip * from.strip_stride + at + kPrefetchBytes);
    }
  }
}

}  // namespace
}  // namespace phalanx::kernels
