// SPDX-License-Identifier: Apache-2.0
// Compiled as the unit of avx512vnni is; only the functions that return tables have external
// linkage.
#include "array_tiles.h"

#include "amx/attention_tiles.h"
#include "amx/matmul_tiles.h"
#include "amx/tile_shape.h"
#include "tables.h"
#include "tile_file.h"

namespace phalanx::kernels {

namespace {

// The names of AmxTiles.
class ArrayTiles {
 public:
  explicit ArrayTiles(const TileShape& shape) {
    std::byte config[64] = {std::byte{1}};
    const auto set = [&](std::size_t tile, std::size_t rows, std::size_t row_bytes) {
      config[48 + tile] = static_cast<std::byte>(rows);
      config[16 + 2 * tile] = static_cast<std::byte>(rows == 0 ? 0 : row_bytes);
    };
    for (std::size_t i = 0; i < 2; ++i) {
      set(2 * i, shape.rows[i], 64);
      set(2 * i + 1, shape.rows[i], 64);
      set(4 + i, shape.rows[i], shape.k_bytes);
      set(6 + i, shape.k_bytes / 4, 64);
    }
    file_.configure(config);
  }
  ArrayTiles(const ArrayTiles&) = delete;
  ArrayTiles& operator=(const ArrayTiles&) = delete;
  ~ArrayTiles() { file_.release(); }

  template <int kRow, int kColumn>
  void zero() {
    file_.zero(2 * kRow + kColumn);
  }
  template <int kRow>
  void load_rows(const std::byte* from, std::size_t stride) {
    file_.load(4 + kRow, from, stride);
  }
  template <int kColumn>
  void load_columns(const std::byte* from) {
    file_.load(6 + kColumn, from, 64);
  }
  template <int kColumn>
  void stream_columns(const std::byte* from) {
    load_columns<kColumn>(from);
  }
  void keep_awake(std::byte* scratch) { file_.store(4, scratch, 64); }
  template <int kRow, int kColumn>
  void dpbf16() {
    file_.dpbf16(2 * kRow + kColumn, 4 + kRow, 6 + kColumn);
  }
  template <int kRow, int kColumn>
  void dpbsud() {
    file_.dpbsud(2 * kRow + kColumn, 4 + kRow, 6 + kColumn);
  }
  template <int kRow, int kColumn>
  void dpbssd() {
    file_.dpbssd(2 * kRow + kColumn, 4 + kRow, 6 + kColumn);
  }
  template <int kRow, int kColumn>
  void load(const std::byte* from, std::size_t stride) {
    file_.load(2 * kRow + kColumn, from, stride);
  }
  template <int kRow, int kColumn>
  void store(std::byte* to, std::size_t stride) {
    file_.store(2 * kRow + kColumn, to, stride);
  }

 private:
  TileFile file_;
};

void multiply_all_by_tiles(const MatmulArgs& args, std::uint32_t tile) {
  multiply_by_tiles<ArrayTiles>(args, whole_tile(args, tile));
}

KernelTable with_products(void (*matmul)(const MatmulArgs& args, std::uint32_t tile)) {
  KernelTable table = avx512vnni_table();
  table.matmul = matmul;
  table.attention = amx_attend_tile<ArrayTiles>;
  return table;
}

}  // namespace

const KernelTable& array_tiles_table() {
  static const KernelTable kTable = with_products(amx_matmul_tile<ArrayTiles>);
  return kTable;
}

const KernelTable& all_array_tiles_table() {
  static const KernelTable kTable = with_products(multiply_all_by_tiles);
  return kTable;
}

}  // namespace phalanx::kernels
