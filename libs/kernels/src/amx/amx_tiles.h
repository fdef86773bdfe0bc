// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "amx/tile_shape.h"

namespace phalanx::kernels {
namespace {

// The tile registers of a product of two tiles of rows with two of packed columns. The bodies in
// this folder are written against these names; tests have a second class with them, which computes
// what docs/arithmetic.md says in plain code.
//
//   rows     2 tiles  [shape.rows[i], shape.k_bytes]   activations
//   columns  2 tiles  [shape.k_bytes / 4, 64]          of a packed strip, 16 columns each
//   sums     4 tiles  [shape.rows[i], 16]              fp32 or int32; <row tile, column tile>
//
// A tile that shape.rows leaves out must not be named.
//
// Requires: Linux permits the process to use tile registers (isa.h). One object in a thread at a
//           time, and no call of other code that uses tiles while it lives.
// Cost:     the object configures the registers and gives them back, some dozens of cycles: the
//           bodies make one for a block of rows and all its leaves. Kept configured for the life of
//           a thread they would make every switch to another thread save 8 KB more and keep the
//           core out of its deeper idle states.
class AmxTiles {
 public:
  PHALANX_LANES explicit AmxTiles(const TileShape& shape) {
    alignas(64) Config config = {};
    for (std::size_t row = 0; row < 2 && shape.rows[row] != 0; ++row) {
      config.set(2 * row, shape.rows[row], 64);
      config.set(2 * row + 1, shape.rows[row], 64);
      config.set(kFirstRowTile + row, shape.rows[row], shape.k_bytes);
      config.set(kFirstColumnTile + row, shape.k_bytes / 4, 64);
    }
    config.set(kFirstColumnTile + 1, shape.k_bytes / 4, 64);
    finish_stores(&config);
    _tile_loadconfig(&config);
  }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
  PHALANX_LANES ~AmxTiles() { _tile_release(); }

  // The numbers of registers are part of the instructions, so they are written out.

  template <int kRow, int kColumn>
  PHALANX_LANES void zero() {
    if constexpr (kRow == 0 && kColumn == 0) {
      _tile_zero(0);
    } else if constexpr (kRow == 0) {
      _tile_zero(1);
    } else if constexpr (kColumn == 0) {
      _tile_zero(2);
    } else {
      _tile_zero(3);
    }
  }

  // `stride` is in bytes, from row to row.
  template <int kRow>
  PHALANX_LANES void load_rows(const std::byte* from, std::size_t stride) {
    finish_stores(from);
    if constexpr (kRow == 0) {
      _tile_loadd(4, from, stride);
    } else {
      _tile_loadd(5, from, stride);
    }
  }

  template <int kColumn>
  PHALANX_LANES void load_columns(const std::byte* from) {
    finish_stores(from);
    if constexpr (kColumn == 0) {
      _tile_loadd(6, from, 64);
    } else {
      _tile_loadd(7, from, 64);
    }
  }

  // The same for columns that are read once or from the second cache: they do not push what is used
  // again out of the first one.
  template <int kColumn>
  PHALANX_LANES void stream_columns(const std::byte* from) {
    finish_stores(from);
    if constexpr (kColumn == 0) {
      _tile_stream_loadd(6, from, 64);
    } else {
      _tile_stream_loadd(7, from, 64);
    }
  }

  // A store after some 0.7 µs without one takes 250 to 350 ns, as if what stores tiles had gone to
  // sleep. Stores the first tile of rows, which must be loaded, to `scratch`, 1 KB.
  PHALANX_LANES void keep_awake(std::byte* scratch) { _tile_stored(4, scratch, 64); }

  // sums + rows × columns of bf16: for each element an even and an odd chain, then their sum.
  template <int kRow, int kColumn>
  PHALANX_LANES void dpbf16() {
    if constexpr (kRow == 0 && kColumn == 0) {
      _tile_dpbf16ps(0, 4, 6);
    } else if constexpr (kRow == 0) {
      _tile_dpbf16ps(1, 4, 7);
    } else if constexpr (kColumn == 0) {
      _tile_dpbf16ps(2, 5, 6);
    } else {
      _tile_dpbf16ps(3, 5, 7);
    }
  }

  // sums + rows × columns of bytes, signed rows and unsigned columns, modulo 2^32.
  template <int kRow, int kColumn>
  PHALANX_LANES void dpbsud() {
    if constexpr (kRow == 0 && kColumn == 0) {
      _tile_dpbsud(0, 4, 6);
    } else if constexpr (kRow == 0) {
      _tile_dpbsud(1, 4, 7);
    } else if constexpr (kColumn == 0) {
      _tile_dpbsud(2, 5, 6);
    } else {
      _tile_dpbsud(3, 5, 7);
    }
  }

  // The same, both of them signed.
  template <int kRow, int kColumn>
  PHALANX_LANES void dpbssd() {
    if constexpr (kRow == 0 && kColumn == 0) {
      _tile_dpbssd(0, 4, 6);
    } else if constexpr (kRow == 0) {
      _tile_dpbssd(1, 4, 7);
    } else if constexpr (kColumn == 0) {
      _tile_dpbssd(2, 5, 6);
    } else {
      _tile_dpbssd(3, 5, 7);
    }
  }

  template <int kRow, int kColumn>
  PHALANX_LANES void load(const std::byte* from, std::size_t stride) {
    finish_stores(from);
    if constexpr (kRow == 0 && kColumn == 0) {
      _tile_loadd(0, from, stride);
    } else if constexpr (kRow == 0) {
      _tile_loadd(1, from, stride);
    } else if constexpr (kColumn == 0) {
      _tile_loadd(2, from, stride);
    } else {
      _tile_loadd(3, from, stride);
    }
  }

  // The rows that the tile has, 64 bytes each, `stride` bytes from row to row.
  template <int kRow, int kColumn>
  PHALANX_LANES void store(std::byte* to, std::size_t stride) {
    if constexpr (kRow == 0 && kColumn == 0) {
      _tile_stored(0, to, stride);
    } else if constexpr (kRow == 0) {
      _tile_stored(1, to, stride);
    } else if constexpr (kColumn == 0) {
      _tile_stored(2, to, stride);
    } else {
      _tile_stored(3, to, stride);
    }
  }

 private:
  static constexpr std::size_t kFirstRowTile = 4;
  static constexpr std::size_t kFirstColumnTile = 6;

  // The operand of LDTILECFG.
  struct Config {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};

    PHALANX_LANES void set(std::size_t tile, std::size_t row_count, std::size_t bytes) {
      rows[tile] = static_cast<std::uint8_t>(row_count);
      row_bytes[tile] = static_cast<std::uint16_t>(bytes);
    }
  };
  static_assert(sizeof(Config) == 64);

  // The intrinsics of g++ do not say that they read memory: what was stored before must not be
  // moved behind them or left out.
  PHALANX_LANES static void finish_stores(const void* from) {
    asm volatile("" : : "r"(from) : "memory");
  }
};

}  // namespace
}  // namespace phalanx::kernels
