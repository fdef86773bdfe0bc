// SPDX-License-Identifier: Apache-2.0
#pragma once

// One tile of a matrix product over integers.

#include <type_traits>

#include "phalanx/kernels/matmul.h"

#include "lanes/int_dot_body.h"
#include "lanes/int_leaf_body.h"
#include "lanes/lanes.h"
#include "lanes/panel_body.h"
#include "lanes/tile_body.h"

namespace phalanx::kernels {
namespace {

// add_scaled() as a function of its own: formats whose codes are made into the same ones share it.
template <IntDot kAs,
          std::size_t kStrips,
          std::size_t kRows,
          std::size_t kRowBlocks,
          typename Fetch>
[[gnu::noinline]] void multiply(const IntRows<kRows, kRowBlocks>& rows,
                                const IntStrips& strips,
                                std::size_t blocks,
                                LeafPart place,
                                IntSums to,
                                Fetch& fetch) {
  add_scaled<kAs, kStrips>(rows, strips, blocks, place, to, fetch);
}

// Codes by codes. Blocks have 1, 2, 4, 6 or 8 rows; those that do not exist repeat the first one
// and are not written. Its buffers are not initialised: they are large.
template <IntDot kDot>
class IntProduct {
 public:
  static constexpr std::size_t kMaxRows = kMaxGroupRows<kParts<kDot>>;
  static constexpr std::size_t fewer(std::size_t rows) { return rows > 4 ? rows - 2 : rows / 2; }
  static constexpr std::size_t kStrips = kMaxIntStrips;

  static constexpr std::size_t kFewRows = kIsNibbles<kMade<kDot>> ? 2 : 4;  // of one block
  static_assert(kFewRows <= kMaxRows);
  // Nibbles and groups of 16 compute as long as memory takes, and codes that are unpacked are one
  // strip at a time.
  static constexpr std::size_t kTwoStreamRows =
      kCodeRow<kDot> == 16 && kParts<kDot> == 1 && !kIsUnpacked<kDot> ? kIntRowsOfTwoStreams : 0;
  static_assert(kTwoStreamRows <= kFewRows);
  // What is fetched by pages or lines where DataPath::kInHalves was measured for each format (Zen
  // 4). By pages two rows of nibbles take a seventh more, one of many others up to two thirds. By
  // lines f32 scales of groups gain nothing, of which a strip begins with many, nor does one row of
  // most.
  static constexpr bool kIsBytes =
      kDot == IntDot::kInt8Whole || kDot == IntDot::kInt8Blocks || kDot == IntDot::kInt8G32;
  static constexpr bool kIsOneByPages =
      kDot == IntDot::kInt4 || kDot == IntDot::kInt6G16K || kDot == IntDot::kInt8G16;
  static constexpr bool kHasWideScales =
      kHasGroups<kDot> && !kHasTwoLevels<kDot> && kScaleRow<kDot> > 32;
  static constexpr std::size_t kRowsByPages = kIsBytes        ? kMaxRowsByPages
                                              : kIsOneByPages ? kMaxRowsByPages / 2
                                                              : 0;
  static constexpr std::size_t kLeadByLines = kMaxRowsByPages == 0 || kHasWideScales ? 0
                                              : kIsBytes                             ? 96
                                                                                     : 144;
  static constexpr std::size_t kFewestByLines = kIsFiveBits<kDot> ? 1 : 2;
  // Scales of a strip of groups, and codes behind them: one thread reads 3 % more so, and no more
  // of codes with scales of leaves. Where scales are laid by, it is slower with none of them (5 %)
  // and with 32 (leaves 7 %; Zen 4).
  static constexpr std::size_t kLinesAtOnce = kRowsByPages == 0 || !kHasGroups<kDot> ? 0
                                              : kReadOn<kDot> != kDot                ? 8
                                                                                     : 32;
  // What they leave of memory (Zen 4: more for bytes gains less).
  static constexpr std::size_t kWeightsPerOther = kIsNibbles<kMade<kDot>> ? 1 : 4;

  // 32 KB of weights, but for few rows, which pass over them once: as much of K as there is room
  // for, so that memory is read without a gap. What is made of rows, codes that have to be spread
  // and sums of half blocks, is so for each panel: it has all strips of the tile, as has that of a
  // leaf which has room. Bytes by groups have them, too: that their 64 KB come from the second
  // cache costs less than what is made of each row twice.
  static PanelSize panel_size(std::size_t rows, std::size_t padded) {
    if (rows <= kFewRows) {
      return {kTileStrips, rows == 1 ? room<1>() : rows == 2 ? room<2>() : room<4>()};
    }
    if (kIsNibbles<kMadeDot> || kDot == IntDot::kInt8G32) {
      return {kTileStrips, kPanelK};
    }
    const bool is_wide = !kSpreadAsTheyAre<kMadeDot> || padded <= kPanelK / 2 ||
                         (kParts<kDot> == 2 && rows > 2 * kMaxIntRows);
    return is_wide ? PanelSize{kTileStrips, kPanelK / 2} : PanelSize{kTileStrips / 2, kPanelK};
  }

  IntProduct(const MatmulArgs& args, const TilePart& part)
      : rows_(args.quantized), part_(part), table_(traits_of(args.leaves[0].weight.format).table) {}

  static StripPlaces places(const MatmulLeaf& leaf, const TilePart& part, std::size_t padded) {
    return {strip_at<kDot>(leaf, part, padded, 0),
            strip_bytes<kDot>(padded),
            scale_bytes<kDot>(padded),
            kCodeRow<kDot>,
            part.gap / 16 * strip_bytes<kDot>(padded)};
  }

  // The sums of a leaf are finished as soon as the last block is added.
  [[nodiscard]] bool merges_leaves() const {
    return kIsWhole || (kDot != IntDot::kInt8Blocks && rows_.span == ScaleSpan::kBlock);
  }

  void begin_leaf(const MatmulLeaf& leaf, TileSums& /*pending*/) {
    if constexpr (kIsWhole) {
      const std::size_t padded = (std::size_t{leaf.weight.rows} + 31) / 32 * 32;
      for (std::size_t r = 0; r < part_.rows; ++r) {
        const std::size_t first = block_at(rows_, part_, r, leaf.first_k);
        starts_[r] = whole_start(rows_, first, padded);
        scales_[r] = rows_.scales[first];
      }
      // Rows that do not exist fill the last block.
      for (std::size_t r = part_.rows; r % kMaxRows != 0; ++r) {
        starts_[r] = 0;
        scales_[r] = 0.0F;
      }
    }
  }

  void end_leaf(const MatmulLeaf& leaf, TileSums& pending) {
    if (!merges_leaves()) {
      const std::size_t padded = (std::size_t{leaf.weight.rows} + 31) / 32 * 32;
      end_sums<kDot>(rows_, part_, leaf, padded, pending);
    }
  }

  // Blocks of many rows share what kMade has: scales of one level, and codes as it takes them.
  void begin_panel(const Panel& panel) {
    for (std::size_t s = 0; s < panel.strips; ++s) {
      const std::size_t strip = panel.first_strip + s;
      if constexpr (kHasTwoLevels<kDot>) {
        lay_by<kDot, kMadeDot>(scales_at(panel, strip), panel.chunk / 32, laid_by(s));
      }
      if constexpr (kUnpacks) {
        put_in_bytes<kDot>(
            panel.places.at(strip, panel.k), table_, panel.chunk / 32, unpacked(panel, s));
      }
    }
  }

  // Few rows are a matter of memory: a strip is read from its beginning to its end, or two are read
  // side by side.
  template <std::size_t kRows, typename Fetch>
  [[gnu::noinline]] void add_few(const Panel& panel, TileSums& pending, Fetch& fetch) {
    const auto from = take_rows<kDot, kRows>(panel, 0, part_.rows);
    if constexpr (kRows <= kTwoStreamRows) {
      if (part_.gap != 0) {
        const FetchNothing nothing;
        for (std::size_t s = 0; s < kTileStrips / 2; ++s) {
          add_strips<kDot, 2, kTileStrips / 2>(from, panel, s, 0, pending, nothing);
        }
        return;
      }
    }
    constexpr bool kReadsOn =
        kRows == 1 && kReadOn<kDot> != kDot && std::is_same_v<Fetch, FetchPages>;
    for (std::size_t s = 0; s < panel.strips; ++s) {
      const std::uint8_t* strip = panel.places.strip(panel.first_strip + s);
      if constexpr (kReadsOn) {
        fetch.read_head(strip, panel.places.head);
        lay_by<kDot, kReadOn<kDot>>(
            scales_at(panel, panel.first_strip + s), panel.chunk / 32, laid_by(s));
        add_strips<kReadOn<kDot>, 1>(from, panel, s, 0, pending, fetch);
      } else {
        fetch.begin_strip(strip, panel.places.head);
        add_strips<kDot, 1>(from, panel, s, 0, pending, fetch);
      }
    }
  }

  template <std::size_t kRows>
  [[gnu::noinline]] void add(const Panel& panel,
                             std::size_t first_row,
                             std::size_t rows,
                             TileSums& pending,
                             FetchLater& fetch) {
    const auto from = take_rows<kMadeDot, kRows>(panel, first_row, rows);
    std::size_t s = 0;
    for (; s + kStrips <= panel.strips; s += kStrips) {
      add_strips<kMadeDot, kStrips>(from, panel, s, first_row, pending, fetch);
    }
    for (; s < panel.strips; ++s) {
      add_strips<kMadeDot, 1>(from, panel, s, first_row, pending, fetch);
    }
  }

 private:
  static constexpr IntDot kMadeDot = kMade<kDot>;
  static constexpr bool kIsWhole = kDot == IntDot::kInt8Whole;
  static constexpr bool kUnpacks = kCodeRow<kMadeDot> != kCodeRow<kDot>;
  static constexpr std::size_t kPanelK = 1024;
  static_assert(kPanelK / 2 % kSuperblock == 0);
  static constexpr std::size_t kBlocks = kPanelK / 32;
  template <IntDot kAs>
  static constexpr bool kSpreadAsTheyAre = kSpreadWords<kAs> == 8;
  // Of each row of a block: fewer rows share the room of all.
  template <std::size_t kRows>
  static constexpr std::size_t kRowBlocks = kMaxRows / kRows* kBlocks;
  template <std::size_t kRows>
  static constexpr std::size_t kRowStride = kRowBlocks<kRows>* kSpreadWords<kMadeDot> + kRowGap;
  static_assert(kSpreadWords<kDot> <= kSpreadWords<kMadeDot>);
  // One number for a row of a whole leaf.
  template <std::size_t kRows>
  using TakenRows = IntRows<kRows, kIsWhole ? 1 : kRowBlocks<kRows>>;
  template <std::size_t kRows>
  static constexpr std::size_t room() {
    return kRowBlocks<kRows> * 32;
  }

  // As a product of kAs takes them, which is kDot or what is made of it.
  template <IntDot kAs, std::size_t kRows>
  PHALANX_LANES TakenRows<kRows> take_rows(const Panel& panel,
                                           std::size_t first_row,
                                           std::size_t rows) {
    const std::size_t first_code = panel.leaf->first_k + panel.k;
    // Codes that are multiplied as they are stay where they are.
    const bool spread = !kSpreadAsTheyAre<kAs> || rows < kRows;
    for (std::size_t r = 0; r < kRows && (spread || !kIsWhole); ++r) {
      const std::size_t row = first_row + (r < rows ? r : 0);
      const std::size_t first = block_at(rows_, part_, row, first_code);
      if (spread) {
        std::uint32_t* to_row = spread_ + r * kRowStride<kRows>;
        spread_row<kAs>(rows_.codes + first * 32, panel.chunk / 32, to_row);
      }
      if constexpr (!kIsWhole) {
        const std::size_t to = r * kRowBlocks<kRows>;
        take_factors<kDot>(rows_,
                           first,
                           panel.chunk / 32,
                           panel.begins_leaf(),
                           {starts_ + to,
                            kRows * kRowBlocks<kRows>,
                            scales_ + to,
                            kHasMinima<kDot> ? factors_ + to : nullptr});
      }
    }
    const std::int8_t* codes = rows_.codes + block_at(rows_, part_, first_row, first_code) * 32;
    const Word* words = spread ? spread_ : reinterpret_cast<const Word*>(codes);
    const std::size_t stride = spread ? kRowStride<kRows> : rows_.code_stride / 4;
    const std::size_t own = kIsWhole ? first_row : 0;
    return {words, stride, starts_ + own, scales_ + own, factors_};
  }

  template <IntDot kAs>
  PHALANX_LANES static void spread_row(const std::int8_t* codes,
                                       std::size_t blocks,
                                       std::uint32_t* to) {
    for (std::size_t block = 0; block < blocks; ++block) {
      if constexpr (!kTakesBytes<kAs>) {
        n_spread(codes + block * 32, to + block * kSpreadWords<kAs>);
      } else {
        q_spread(codes + block * 32, to + block * kSpreadWords<kAs>);
      }
    }
  }

  [[nodiscard]] PHALANX_LANES static const std::uint8_t* scales_at(const Panel& panel,
                                                                   std::size_t strip) {
    const std::uint8_t* of_strip = panel.places.strip(strip);
    return kHasGroups<kDot> ? scales_from<kDot>(of_strip, panel.k) : of_strip;
  }

  // Of strip s of a panel: its scales in f32, and its codes as bytes.
  [[nodiscard]] float* laid_by(std::size_t s) { return laid_by_ + s * kLaidByStrip; }
  [[nodiscard]] std::uint8_t* unpacked(const Panel& panel, std::size_t s) {
    return unpacked_ + s * panel.chunk * 16;
  }

  // From strip s of a panel on, each kApart strips from the one before, as a product of kAs.
  template <IntDot kAs, std::size_t kApart>
  [[nodiscard]] PHALANX_LANES IntStrips strips_at(const Panel& panel, std::size_t s) {
    const StripPlaces& places = panel.places;
    const std::size_t strip = panel.first_strip + s;
    const std::size_t stride = kApart == 1 ? places.stride : kApart * places.stride + places.gap;
    IntStrips strips{places.at(strip, panel.k), scales_at(panel, strip), stride, stride, table_};
    if constexpr (kAs != kDot && kLaysBy) {
      strips.scales = reinterpret_cast<const std::uint8_t*>(laid_by(s));
      strips.scale_stride = kLaidByStrip * sizeof(float);
    }
    if constexpr (kAs != kDot && kUnpacks) {
      strips.codes = unpacked(panel, s);
      strips.stride = panel.chunk * 16;
    }
    return strips;
  }

  template <IntDot kAs,
            std::size_t kCount,
            std::size_t kApart = 1,
            std::size_t kRows,
            std::size_t kStride,
            typename Fetch>
  PHALANX_LANES void add_strips(const IntRows<kRows, kStride>& rows,
                                const Panel& panel,
                                std::size_t s,
                                std::size_t first_row,
                                TileSums& pending,
                                Fetch& fetch) {
    const IntSums to{pending.next(panel.first_strip + s) + first_row * 16,
                     kApart * TileSums::kStripFloats};
    const bool merges = panel.ends_leaf() && merges_leaves();
    const LeafPart place{panel.begins_leaf(), panel.ends_leaf(), merges ? panel.leaf->merges : 0};
    if constexpr (kIsWhole) {
      add_whole<kCount>(rows, strips_at<kAs, kApart>(panel, s), panel.chunk / 32, place, to, fetch);
    } else if constexpr (kInlinesProducts) {
      add_scaled<kAs, kCount>(
          rows, strips_at<kAs, kApart>(panel, s), panel.chunk / 32, place, to, fetch);
    } else {
      multiply<kAs, kCount>(
          rows, strips_at<kAs, kApart>(panel, s), panel.chunk / 32, place, to, fetch);
    }
  }

  const QuantizedRows& rows_;
  const TilePart& part_;
  const CodeTable* table_;
  alignas(64) std::uint32_t spread_[kMaxRows * kRowStride<kMaxRows>];
  // What the integer sums of rows begin with, and what they are multiplied by: of all rows for a
  // whole leaf, otherwise of a block of them for each block of a panel.
  static constexpr std::size_t kRowNumbers = kIsWhole ? kMatmulTileRows : kMaxRows * kBlocks;
  alignas(64) std::int32_t starts_[kParts<kDot> * kRowNumbers];
  alignas(64) float scales_[kRowNumbers];
  // Of the strips of a panel, or of the one that a single row reads.
  static constexpr bool kLaysBy = kHasTwoLevels<kDot> || kReadOn<kDot> != kDot;
  static constexpr std::size_t kLaidByStrip =
      kHasTwoLevels<kDot> ? kBlocks * kScaleRow<kMadeDot> / sizeof(float) : 0;
  alignas(64) float laid_by_[kHasTwoLevels<kDot>     ? kTileStrips * kLaidByStrip
                             : kReadOn<kDot> != kDot ? kRowBlocks<1> * 16
                                                     : 1];
  alignas(64) std::uint8_t unpacked_[kUnpacks ? kTileStrips * (kPanelK / 2) * 16 : 1];
  alignas(64) float factors_[kHasMinima<kDot> ? kParts<kDot> * kMaxRows * kBlocks : 1];
};

inline void int_matmul_tile(const MatmulArgs& args, std::uint32_t tile, DataPath path) {
  dispatch_int_dot(args, [&]<IntDot kDot>() { run_panels<IntProduct<kDot>>(args, tile, path); });
}

}  // namespace
}  // namespace phalanx::kernels
