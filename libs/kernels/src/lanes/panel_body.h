// SPDX-License-Identifier: Apache-2.0
#pragma once

// How the rows of a tile meet its weights. A panel, some strips of a run of K, stays in the L1
// cache while one block of rows after the other is multiplied by it; meanwhile the next panel comes
// into the L2 cache, a share with each block of rows. So weights are read from memory once for all
// rows of the tile, and all the time.

#include "phalanx/kernels/matmul.h"

#include "lanes/fetch_body.h"
#include "lanes/lanes.h"
#include "lanes/tile_body.h"

namespace phalanx::kernels {
namespace {

// Where the strips of a leaf lie: the first one of the tile, and others `stride` bytes apart, each
// `head` bytes and then `per_k` bytes for every element of K.
struct StripPlaces {
  const std::uint8_t* first;
  std::size_t stride;
  std::size_t head;
  std::size_t per_k;
  std::size_t gap;  // bytes before the second half of a tile of halves

  [[nodiscard]] const std::uint8_t* strip(std::size_t s) const {
    return first + s * stride + (s < kTileStrips / 2 ? 0 : gap);
  }
  [[nodiscard]] const std::uint8_t* at(std::size_t s, std::size_t k) const {
    return strip(s) + head + k * per_k;
  }
};

struct PanelSize {
  std::size_t strips;
  std::size_t k;
};
struct Panel {
  const MatmulLeaf* leaf;
  std::size_t padded;  // K of the leaf
  std::size_t k;
  std::size_t chunk;  // elements of K from k on, a multiple of 32
  std::size_t first_strip;
  std::size_t strips;
  StripPlaces places;

  [[nodiscard]] bool begins_leaf() const { return k == 0; }
  [[nodiscard]] bool ends_leaf() const { return k + chunk == padded; }
};

// All rows of a tile. `Product` multiplies a block of them by a panel:
//
//   kMaxRows      rows of the largest block
//   fewer(rows)   the next smaller size of a block
//   kFewRows      up to these many rows, of one block, read one strip after the other
//   kTwoStreamRows  so few of them take tiles of halves, where the columns can be split, and read
//                 two strips of those side by side
//   kRowsByPages  for so few of them FetchPages fetches where DataPath::kInHalves
//   kLinesAtOnce  of a panel then, before its rows are taken
//   kLeadByLines  lines that FetchLines is ahead there, of other few rows; 0: it is not taken
//   kFewestByLines  rows for it, but where a strip is not read on: a panel has several runs, or the
//                 scales between strips are as many lines as others are fetched ahead
//   kWeightsPerOther  lines of weights for each that is fetched of what is read later (ReadAhead),
//                 at least; 0: none
//   panel_size()  for so many rows of the tile and a leaf of such a padded K, at most
//   places()      of a leaf
//   merges_leaves()  whether add() adds a leaf that ends to the subtrees to its left
//   begin_leaf(), end_leaf()
//   add_few<kRows>()  all rows of the tile, of up to kFewRows
//   begin_panel()     with more rows
//   add<kRows>()      a block of them of up to kRows rows, more than fewer(kRows)
template <typename Product>
class PanelTile {
 public:
  static constexpr std::size_t kBlockRows = kMatmulTileRows;

  PanelTile(const MatmulArgs& args, const TilePart& part)
      : args_(args), part_(part), product_(args, part) {}

  [[nodiscard]] bool merges_leaves() const { return product_.merges_leaves(); }

  void add_leaf(const MatmulLeaf& leaf, TileSums& pending) {
    product_.begin_leaf(leaf, pending);
    Panel panel = first_panel(leaf, part_);
    bool is_last = false;
    while (!is_last) {
      is_last = panel.ends_leaf() && panel.first_strip + panel.strips == part_.strips;
      const Panel next = following(panel);
      add_all_rows(panel, next, pending);
      panel = next;
    }
    product_.end_leaf(leaf, pending);
  }

 private:
  static constexpr std::size_t kLeadLines = 128;

  void add_all_rows(const Panel& panel, const Panel& next, TileSums& pending) {
    if (part_.rows <= Product::kFewRows) {
      add_few_rows(panel, next, pending);
    } else {
      add_row_blocks(panel, next, pending);
    }
  }

  // They pass over the panel once and are done with it as soon as memory is: what is fetched runs a
  // short way ahead of them, and gets to the next panel that much before them.
  void add_few_rows(const Panel& panel, const Panel& next, TileSums& pending) {
    const FetchRun own = lines_of(panel);
    const FetchRun later = lines_of(next);
    const bool in_halves = part_.path == DataPath::kInHalves;
    if constexpr (Product::kRowsByPages != 0) {
      if (in_halves && part_.rows <= Product::kRowsByPages && own.runs == 1) {
        FetchPages fetch(own, first_of(own.lines, Product::kLinesAtOnce), kLeadLines, later);
        add_few<Product::kRowsByPages>(panel, pending, fetch);
        return;
      }
    }
    if constexpr (Product::kLeadByLines != 0) {
      const bool is_far = own.runs > 1 || panel.places.head >= kLeadLines * 64;
      if (in_halves && (part_.rows >= Product::kFewestByLines || is_far)) {
        FetchLines fetch(own, Product::kLeadByLines, later);
        add_few<Product::kFewRows>(panel, pending, fetch);
        return;
      }
    }
    const bool is_long = own.runs == 1 && own.lines > kLeadLines;
    const std::size_t blocks = panel.strips * (panel.chunk / 32);
    // Of integers, one row of six bits or wider computes so little that it takes lines as soon as
    // they come.
    const bool straight = part_.rows == 1 && panel.places.per_k >= 12;
    const CacheLevel level = straight ? CacheLevel::kFirst : CacheLevel::kSecond;
    FetchLater fetch = is_long ? FetchLater::through(own, kLeadLines, later, blocks, level)
                               : FetchLater::all_of(later, blocks, level);
    add_few<Product::kFewRows>(panel, pending, fetch);
  }

  template <std::size_t kRows, typename Fetch>
  void add_few(const Panel& panel, TileSums& pending, Fetch& fetch) {
    if constexpr (kRows > 1) {
      if (part_.rows <= Product::fewer(kRows)) {
        add_few<Product::fewer(kRows)>(panel, pending, fetch);
        return;
      }
    }
    product_.template add_few<kRows>(panel, pending, fetch);
  }

  void add_row_blocks(const Panel& panel, const Panel& next, TileSums& pending) {
    FetchLater fetch = fetch_during(panel, next);
    product_.begin_panel(panel);
    for (std::size_t row = 0; row < part_.rows; row += Product::kMaxRows) {
      const std::size_t rows = first_of(part_.rows - row, Product::kMaxRows);
      if (rows < Product::kMaxRows) {
        fetch.end_with(calls_of(panel));
      }
      add_rows<Product::kMaxRows>(panel, row, rows, pending, fetch);
    }
  }

  template <std::size_t kRows>
  void add_rows(
      const Panel& panel, std::size_t row, std::size_t rows, TileSums& pending, FetchLater& fetch) {
    if constexpr (kRows > 1) {
      if (rows <= Product::fewer(kRows)) {
        add_rows<Product::fewer(kRows)>(panel, row, rows, pending, fetch);
        return;
      }
    }
    product_.template add<kRows>(panel, row, rows, pending, fetch);
  }

  [[nodiscard]] Panel first_panel(const MatmulLeaf& leaf, const TilePart& part) const {
    const std::size_t padded = (std::size_t{leaf.weight.rows} + 31) / 32 * 32;
    const PanelSize size = Product::panel_size(part_.rows, padded);
    return {&leaf,
            padded,
            0,
            first_of(padded, size.k),
            0,
            first_of(part_.strips, size.strips),
            Product::places(leaf, part, padded)};
  }

  // The panel after this one; after the last one of the tile the first one of the tile to the
  // right.
  [[nodiscard]] Panel following(const Panel& panel) const {
    const PanelSize size = Product::panel_size(part_.rows, panel.padded);
    Panel next = panel;
    next.first_strip += panel.strips;
    if (next.first_strip < part_.strips) {
      next.strips = first_of(part_.strips - next.first_strip, size.strips);
      return next;
    }
    if (panel.ends_leaf()) {
      const bool last = panel.leaf == args_.leaves + args_.leaf_count - 1;
      if (!last) {
        return first_panel(panel.leaf[1], part_);
      }
      TilePart right = part_;
      right.first_column += kTileStrips * 16;
      return first_panel(args_.leaves[0], right);
    }
    next.first_strip = 0;
    next.strips = first_of(part_.strips, size.strips);
    next.k += panel.chunk;
    next.chunk = first_of(panel.padded - next.k, size.k);
    return next;
  }

  // How often a block of rows asks for lines while it is multiplied by a panel.
  static std::size_t calls_of(const Panel& panel) {
    return (panel.strips + Product::kStrips - 1) / Product::kStrips * (panel.chunk / 32);
  }

  // What is fetched while all rows, more than a few, are multiplied by a panel: with each block of
  // rows as much as it takes of the time.
  [[nodiscard]] FetchLater fetch_during(const Panel& panel, const Panel& next) const {
    const FetchRun later = lines_of(next);
    const std::size_t blocks =
        (part_.rows * calls_of(panel) + Product::kMaxRows - 1) / Product::kMaxRows;
    FetchLater fetch = FetchLater::all_of(later, blocks, CacheLevel::kSecond);
    if constexpr (Product::kWeightsPerOther != 0) {
      // Rows of one tile leave memory idle; more read each weight only once for all of them.
      const bool are_all = args_.rows <= kMatmulTileRows && args_.row_runs == 1;
      if (args_.ahead != nullptr && are_all) {
        const std::size_t lines = later.lines * later.runs;
        const auto beside = args_.ahead->take(lines, lines / Product::kWeightsPerOther);
        fetch.and_then(beside.first, beside.count, later.runs, blocks);
      }
    }
    return fetch;
  }

  // Strips that are read from their beginning to their end, scales too, lie one behind the other.
  [[nodiscard]] static FetchRun lines_of(const Panel& panel) {
    const StripPlaces& places = panel.places;
    const auto* first = reinterpret_cast<const std::byte*>(places.at(panel.first_strip, panel.k));
    if (panel.begins_leaf() && panel.ends_leaf()) {
      return {first - places.head, panel.strips * places.stride / 64, 1, 0};
    }
    const std::size_t lines = panel.chunk * places.per_k / 64;
    return {first, lines, panel.strips, places.stride - lines * 64};
  }

  PHALANX_LANES static std::size_t first_of(std::size_t left, std::size_t most) {
    return left < most ? left : most;
  }

  const MatmulArgs& args_;
  const TilePart& part_;
  Product product_;
};

template <typename Product>
void run_panels(const MatmulArgs& args, std::uint32_t tile, DataPath path) {
  const bool halves = args.rows <= Product::kTwoStreamRows && splits_in_halves(args);
  TilePart part = halves ? tile_of_halves(args, tile) : whole_tile(args, tile);
  part.path = path;
  run_block<PanelTile<Product>>(args, part);
}

}  // namespace
}  // namespace phalanx::kernels
