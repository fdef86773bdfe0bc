// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace phalanx::kernels {

// The tile registers of AMX in memory, and the instructions on them in the arithmetic of
// docs/arithmetic.md. What the processor would refuse aborts. A register holds junk until it is
// loaded or zeroed, where the processor would give zeros, so that nobody counts on them.
//
// Everything is out of line: code of any instruction set may call it.
class TileFile {
 public:
  // LDTILECFG: 64 bytes, palette 1.
  void configure(const std::byte* config);
  // TILERELEASE.
  void release();
  [[nodiscard]] bool is_configured() const;

  void zero(int tile);
  // From and to memory, rows `stride` bytes apart. Only what the tile is configured for is touched.
  void load(int tile, const std::byte* from, std::size_t stride);
  void store(int tile, std::byte* to, std::size_t stride) const;
  // TDPBF16PS, TDPBSUD and TDPBSSD: sums += a × b.
  void dpbf16(int sums, int a, int b);
  void dpbsud(int sums, int a, int b);
  void dpbssd(int sums, int a, int b);

 private:
  static constexpr std::size_t kRows = 16;
  static constexpr std::size_t kRowBytes = 64;

  struct Tile {
    std::size_t rows;  // 0: not configured
    std::size_t row_bytes;
    std::array<std::array<std::byte, kRowBytes>, kRows> data;
  };

  [[nodiscard]] Tile& at(int tile);
  [[nodiscard]] const Tile& at(int tile) const;
  void check_product(int sums, int a, int b) const;
  template <typename Code>
  void dot_bytes(int sums, int a, int b);

  bool configured_ = false;
  std::array<Tile, 8> tiles_ = {};
};

}  // namespace phalanx::kernels
