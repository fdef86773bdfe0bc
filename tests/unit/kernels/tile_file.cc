// SPDX-License-Identifier: Apache-2.0
#include "tile_file.h"

#include <bit>
#include <cstring>

#include "phalanx/base/check.h"
#include "phalanx/kernels/float_mode.h"

#include "scalar_math.h"

namespace phalanx::kernels {

namespace {

constexpr std::byte kJunk{0xFF};  // of an fp32 a NaN

template <typename T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

float bf16_at(const std::byte* row, std::size_t index) {
  return std::bit_cast<float>(std::uint32_t{read<std::uint16_t>(row + 2 * index)} << 16);
}

}  // namespace

void TileFile::configure(const std::byte* config) {
  PHALANX_CHECK(config[0] == std::byte{1} && config[1] == std::byte{0},
                "expected palette 1 and no interrupted instruction");
  for (std::size_t i = 2; i < 16; ++i) {
    PHALANX_CHECK(config[i] == std::byte{0}, "a reserved byte is set");
  }
  for (std::size_t i = 0; i < 16; ++i) {
    const std::size_t row_bytes = read<std::uint16_t>(config + 16 + 2 * i);
    const std::size_t rows = read<std::uint8_t>(config + 48 + i);
    PHALANX_CHECK(rows <= kRows && row_bytes <= kRowBytes && (rows == 0) == (row_bytes == 0),
                  "not the shape of a tile");
    PHALANX_CHECK(i < tiles_.size() || rows == 0, "there are 8 tiles");
    if (i < tiles_.size()) {
      tiles_[i] = {rows, row_bytes, {}};
      std::memset(&tiles_[i].data, static_cast<int>(kJunk), sizeof(tiles_[i].data));
    }
  }
  configured_ = true;
}

void TileFile::release() {
  configured_ = false;
}

bool TileFile::is_configured() const {
  return configured_;
}

TileFile::Tile& TileFile::at(int tile) {
  Tile& found = tiles_.at(static_cast<std::size_t>(tile));
  PHALANX_CHECK(configured_ && found.rows != 0, "the tile is not configured");
  return found;
}

const TileFile::Tile& TileFile::at(int tile) const {
  return const_cast<TileFile*>(this)->at(tile);
}

void TileFile::zero(int tile) {
  at(tile).data = {};
}

void TileFile::load(int tile, const std::byte* from, std::size_t stride) {
  Tile& to = at(tile);
  to.data = {};
  for (std::size_t row = 0; row < to.rows; ++row) {
    std::memcpy(to.data[row].data(), from + row * stride, to.row_bytes);
  }
}

void TileFile::store(int tile, std::byte* to, std::size_t stride) const {
  const Tile& from = at(tile);
  for (std::size_t row = 0; row < from.rows; ++row) {
    std::memcpy(to + row * stride, from.data[row].data(), from.row_bytes);
  }
}

void TileFile::check_product(int sums, int a, int b) const {
  PHALANX_CHECK(sums != a && sums != b && a != b, "the operands of a product are three tiles");
  PHALANX_CHECK(at(sums).rows == at(a).rows && at(sums).row_bytes == at(b).row_bytes &&
                    at(a).row_bytes == at(b).rows * 4,
                "the shapes of the operands do not fit");
}

void TileFile::dpbf16(int sums, int a, int b) {
  check_product(sums, a, b);
  const FloatModeScope mode;  // the instruction has it whatever MXCSR says
  Tile& to = at(sums);
  const Tile& rows = at(a);
  const Tile& columns = at(b);
  for (std::size_t row = 0; row < to.rows; ++row) {
    for (std::size_t column = 0; column < to.row_bytes / 4; ++column) {
      float even = 0.0F;
      float odd = 0.0F;
      for (std::size_t pair = 0; pair < columns.rows; ++pair) {
        const std::byte* first = rows.data[row].data();
        const std::byte* second = columns.data[pair].data();
        even = scalar::fused(bf16_at(first, 2 * pair), bf16_at(second, 2 * column), even);
        odd = scalar::fused(bf16_at(first, 2 * pair + 1), bf16_at(second, 2 * column + 1), odd);
      }
      std::byte* sum = to.data[row].data() + 4 * column;
      const float added = read<float>(sum) + (even + odd);
      std::memcpy(sum, &added, sizeof(added));
    }
  }
}

void TileFile::dpbsud(int sums, int a, int b) {
  dot_bytes<std::uint8_t>(sums, a, b);
}

void TileFile::dpbssd(int sums, int a, int b) {
  dot_bytes<std::int8_t>(sums, a, b);
}

// `Code` is what b has.
template <typename Code>
void TileFile::dot_bytes(int sums, int a, int b) {
  check_product(sums, a, b);
  Tile& to = at(sums);
  const Tile& rows = at(a);
  const Tile& columns = at(b);
  for (std::size_t row = 0; row < to.rows; ++row) {
    for (std::size_t column = 0; column < to.row_bytes / 4; ++column) {
      std::byte* at_sum = to.data[row].data() + 4 * column;
      auto sum = read<std::uint32_t>(at_sum);
      for (std::size_t k = 0; k < columns.rows * 4; ++k) {
        const std::int32_t first = read<std::int8_t>(rows.data[row].data() + k);
        const std::int32_t second = read<Code>(columns.data[k / 4].data() + 4 * column + k % 4);
        sum += static_cast<std::uint32_t>(first * second);
      }
      std::memcpy(at_sum, &sum, sizeof(sum));
    }
  }
}

}  // namespace phalanx::kernels
