// SPDX-License-Identifier: Apache-2.0
#pragma once

// One tile of a matrix product.

#include "phalanx/kernels/matmul.h"

#include "lanes/dot_body.h"
#include "lanes/int_matmul_body.h"
#include "lanes/lanes.h"
#include "lanes/panel_body.h"
#include "lanes/tile_body.h"

namespace phalanx::kernels {
namespace {

// bf16 by bf16, in blocks of up to kRowsOfBlock rows. Its buffer is not initialised: it is large.
template <std::size_t kRowsOfBlock, typename Factor>
class Bf16Product {
 public:
  static constexpr std::size_t kMaxRows = kRowsOfBlock;
  static constexpr std::size_t fewer(std::size_t rows) { return rows - 1; }
  static constexpr std::size_t kStrips = kBlockStrips<kMaxRows>;

  // In blocks of eight, five and six rows wait for memory, too: by panels they take up to two
  // fifths more (Zen 4).
  static constexpr std::size_t kFewRows = kMaxRows > kMaxBlockRows   ? kMaxBlockRows
                                          : kMaxRows < kFewBlockRows ? kMaxRows
                                                                     : kFewBlockRows;
  static constexpr std::size_t kTwoStreamRows = kRowsOfTwoStreams;
  static_assert(kTwoStreamRows <= kFewRows);
  // Three rows of pairs compute as little as two of floats.
  static constexpr std::size_t kRowsByPages =
      kMaxRowsByPages == 0 ? 0 : kMaxRowsByPages + Multiplier<Factor>::kNumbers - 1;
  static constexpr std::size_t kLinesAtOnce = 0;
  static constexpr std::size_t kLeadByLines = kRowsByPages == 0 ? 0 : 144;
  static constexpr std::size_t kFewestByLines = kRowsByPages + 1;
  // Of floats memory is not idle (0 to 5 % slower); 16 rows of pairs gain 0 to 5 % (Zen 4).
  static constexpr std::size_t kWeightsPerOther = Multiplier<Factor>::kNumbers == 1 ? 0 : 4;

  // 32 KB of weights, and up to 8 KB of activations as factors. Few rows pass over weights once: as
  // much of K as there is room for, so that memory is read without a gap.
  static PanelSize panel_size(std::size_t rows, std::size_t /*padded*/) {
    return {kTileStrips, rows <= kFewRows ? kRoomK / rows / 32 * 32 : kPanelK};
  }

  Bf16Product(const MatmulArgs& args, const TilePart& part) : args_(args), part_(part) {}

  static StripPlaces places(const MatmulLeaf& leaf, const TilePart& part, std::size_t padded) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(leaf.weight.data);
    const std::size_t stride = padded * 32;
    return {first + strip_offset(leaf.weight, part.first_column, stride),
            stride,
            0,
            32,
            part.gap / 16 * stride};
  }

  void begin_leaf(const MatmulLeaf& /*leaf*/, TileSums& pending) {
    pending.clear_next(part_.strips, part_.rows);
  }
  void end_leaf(const MatmulLeaf& /*leaf*/, TileSums& /*pending*/) {}
  [[nodiscard]] static constexpr bool merges_leaves() { return false; }

  void begin_panel(const Panel& /*panel*/) {}

  // A strip is read from its beginning to its end, or two are read side by side.
  template <std::size_t kRows, typename Fetch>
  [[gnu::noinline]] void add_few(const Panel& panel, TileSums& pending, Fetch& fetch) {
    Strips<std::uint16_t> strips = strips_of(panel);
    StripSums sums = sums_of(panel, 0, pending);
    const FactorStrides strides = strides_of<kRows>(panel.chunk);
    store_rows<kRows>(activations_of(panel, 0), panel.chunk, strides);
    if constexpr (kRows <= kTwoStreamRows) {
      add_side_by_side<kRows>(panel, {factors_, strides}, strips, sums);
      return;
    }
    for (std::size_t s = 0; s < panel.strips; ++s) {
      const FactorRows<Factor> rows{factors_, strides};
      add_dots<kRows, 1, 32, CacheLevel::kFirst>(rows, strips, panel.chunk, sums, fetch);
      strips.first += strips.stride;
      sums.first += sums.strip_stride;
    }
  }

  template <std::size_t kRows>
  [[gnu::noinline]] void add(const Panel& panel,
                             std::size_t first_row,
                             std::size_t /*rows*/,
                             TileSums& pending,
                             FetchLater& fetch) {
    Strips<std::uint16_t> strips = strips_of(panel);
    StripSums sums = sums_of(panel, first_row, pending);
    const Activations from = activations_of(panel, first_row);
    std::size_t left = panel.strips;
    if (left >= kStrips && from.count >= panel.chunk) {
      StoreAhead<kRows> rows{fetch, from, panel.chunk / 32, factors_};
      rows.store();
      add_first<kRows>(rows, strips, panel.chunk, sums);
      strips.first += kStrips * strips.stride;
      sums.first += kStrips * sums.strip_stride;
      left -= kStrips;
    } else {
      store_rows<kRows>(from, panel.chunk, kStrides<kRows>);
    }
    const FactorRows<Factor> rows{factors_, kStrides<kRows>};
    add_strips<kRows, 32, kStrips>(rows, strips, left, panel.chunk, sums, fetch);
  }

 private:
  static constexpr std::size_t kPanelK = 256;
  static constexpr std::size_t kRoomK = 8192;  // of all rows
  static constexpr std::size_t kRoom = factors_of<Factor>(kRoomK) + kFewRows * kRowGap;
  static_assert(kRoom >= kMaxRows * (factors_of<Factor>(kPanelK) + kRowGap));

  // Of kRows rows of so many elements of K.
  template <std::size_t kRows>
  PHALANX_LANES static constexpr FactorStrides strides_of(std::size_t chunk) {
    if constexpr (Multiplier<Factor>::kInBlocks) {
      return {kBlockFactors<Factor>, kRows * kBlockFactors<Factor>};
    } else {
      return {factors_of<Factor>(chunk) + kRowGap, kBlockFactors<Factor>};
    }
  }
  // Where a panel has more rows than a few.
  template <std::size_t kRows>
  static constexpr FactorStrides kStrides = strides_of<kRows>(kPanelK);

  // Of some rows, from an element of K on.
  struct Activations {
    const Bf16* first;
    std::size_t stride;
    std::size_t count;  // elements of a row that there are

    [[nodiscard]] PHALANX_LANES const std::uint16_t* row(std::size_t r) const {
      return reinterpret_cast<const std::uint16_t*>(first + r * stride);
    }
  };

  [[nodiscard]] PHALANX_LANES static Strips<std::uint16_t> strips_of(const Panel& panel) {
    return {reinterpret_cast<const std::uint16_t*>(panel.places.at(panel.first_strip, panel.k)),
            panel.padded * 16};
  }
  [[nodiscard]] PHALANX_LANES static StripSums sums_of(const Panel& panel,
                                                       std::size_t first_row,
                                                       TileSums& pending) {
    return {pending.next(panel.first_strip) + first_row * 16, 16, TileSums::kStripFloats};
  }
  [[nodiscard]] PHALANX_LANES Activations activations_of(const Panel& panel,
                                                         std::size_t first_row) const {
    return {args_.activations + (part_.first_row + first_row) * args_.activation_stride +
                panel.leaf->first_k + panel.k,
            args_.activation_stride,
            panel.leaf->weight.rows - panel.k};
  }

  template <std::size_t kRows>
  PHALANX_LANES void store_rows(const Activations& from, std::size_t chunk, FactorStrides strides) {
    const std::size_t valid = from.count < chunk ? from.count : chunk;
    for (std::size_t r = 0; r < kRows; ++r) {
      store_row(factors_ + r * strides.row, from.row(r), valid, chunk, strides.block);
    }
  }

  // Each strip of the first half of a panel beside one of the second. A last one is left by itself
  // where the columns end, and then there is no gap.
  template <std::size_t kRows>
  PHALANX_LANES void add_side_by_side(const Panel& panel,
                                      const FactorRows<Factor>& rows,
                                      const Strips<std::uint16_t>& strips,
                                      const StripSums& sums) {
    const FetchNothing nothing;
    const std::size_t half = panel.strips / 2;
    const std::size_t apart = half * strips.stride + panel.places.gap / sizeof(std::uint16_t);
    for (std::size_t s = 0; s < half; ++s) {
      const Strips<std::uint16_t> both{strips.first + s * strips.stride, apart};
      const StripSums to{sums.at(0, s), sums.row_stride, half * sums.strip_stride};
      add_dots<kRows, 2>(rows, both, panel.chunk, to, nothing);
    }
    if (panel.strips % 2 != 0) {
      const Strips<std::uint16_t> last{strips.first + 2 * half * strips.stride, strips.stride};
      const StripSums to{sums.at(0, 2 * half), sums.row_stride, sums.strip_stride};
      add_dots<kRows, 1>(rows, last, panel.chunk, to, nothing);
    }
  }

  // Makes factors of the activations of a block of K while that before it is multiplied first:
  // beside products that takes 1 to 2 % less of the time than before them all, and what is read of
  // them waits for no store.
  template <std::size_t kRows>
  struct StoreAhead {
    FetchLater& fetch;
    Activations from;
    std::size_t left;  // blocks
    Factor* to;

    PHALANX_LANES void store() {
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
        store_block(to + r * kStrides<kRows>.row, from.row(r));
      }
      from.first += 32;
      to += kStrides<kRows>.block;
      --left;
    }
    template <CacheLevel kLevel>
    PHALANX_LANES LinesAhead<kLevel> begin_block(const void* read) {
      if (left != 0) {
        store();
      }
      return fetch.begin_block<kLevel>(read);
    }
  };

  // The first strips of a panel. A function of its own: g++ has registers for its loop then.
  template <std::size_t kRows>
  [[gnu::noinline]] void add_first(StoreAhead<kRows> rows,
                                   const Strips<std::uint16_t>& strips,
                                   std::size_t chunk,
                                   const StripSums& sums) {
    add_dots<kRows, kStrips>(
        FactorRows<Factor>{factors_, kStrides<kRows>}, strips, chunk, sums, rows);
  }

  const MatmulArgs& args_;
  const TilePart& part_;
  alignas(64) Factor factors_[kRoom];
};

template <DataPath kPath>
void matmul_tile(const MatmulArgs& args, std::uint32_t tile) {
  if (args.leaves[0].weight.format == WeightFormat::kBf16) {
    run_panels<Bf16Product<kRowsAtOnce<kPath>, float>>(args, tile, kPath);
  } else {
    int_matmul_tile(args, tile, kPath);
  }
}

}  // namespace
}  // namespace phalanx::kernels
