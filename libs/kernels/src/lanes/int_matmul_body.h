// SPDX-License-Identifier: Apache-2.0
#pragma once

// One tile of a matrix product over integers.

#include "phalanx/kernels/matmul.h"

#include "lanes/int_dot_body.h"
#include "lanes/int_leaf_body.h"
#include "lanes/lanes.h"
#include "lanes/tile_body.h"

namespace phalanx::kernels {
namespace {

// Spread codes stay in the L1 cache while every strip of the tile passes over them.
inline constexpr std::size_t kSpreadCodes = 8192;

// Up to kRows rows of codes against the strips of a tile; rows that do not exist repeat the first
// one and are not written. Its buffers are not initialised: they are large.
template <IntDot kDot, std::size_t kRows>
class IntRowBlock {
 public:
  static constexpr std::size_t kBlockRows = kRows;

  IntRowBlock(const MatmulArgs& args, const TilePart& part) : rows_(args.quantized), part_(part) {}

  void add_leaf(const MatmulLeaf& leaf, PendingSums<kRows>& pending) {
    const std::size_t padded = (std::size_t{leaf.weight.rows} + 31) / 32 * 32;
    if constexpr (kDot == IntDot::kInt8Whole) {
      begin_sums(leaf, padded);
    } else {
      pending.clear_next(part_.strips);
    }
    for (std::size_t k = 0; k < padded; k += kChunk) {
      const std::size_t chunk = padded - k < kChunk ? padded - k : kChunk;
      take_rows(leaf.first_k + k, chunk);
      std::size_t s = 0;
      for (; s + kStrips <= part_.strips; s += kStrips) {
        add_strips<kStrips>(
            strip_at<kDot>(leaf, part_, padded, s), padded, k, chunk, pending.next(s));
      }
      if constexpr (kStrips > 1) {
        for (; s < part_.strips; ++s) {
          add_strips<1>(strip_at<kDot>(leaf, part_, padded, s), padded, k, chunk, pending.next(s));
        }
      }
    }
    if constexpr (kDot != IntDot::kInt8Whole) {
      end_leaf<kDot>(rows_, part_, leaf, padded, pending);
    }
  }

 private:
  static constexpr std::size_t kChunk = kSpreadCodes / kRows;
  static constexpr std::size_t kBlocks = kChunk / 32;
  static constexpr std::size_t kStride = kBlocks * kSpreadWords<kDot> + kRowGap;
  // One row is a matter of memory: a strip is read from its beginning to its end.
  static constexpr std::size_t kStrips = kRows == 1 ? 1 : kMaxIntStrips;

  // What the integer sum of a whole leaf begins with, and what it is multiplied by.
  void begin_sums(const MatmulLeaf& leaf, std::size_t padded) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::size_t first = block_at(rows_, part_, r < part_.rows ? r : 0, leaf.first_k);
      starts_[r * kBlocks] = whole_start(rows_, first, padded);
      scales_[r * kBlocks] = rows_.scales[first];
    }
  }

  void take_rows(std::size_t first_code, std::size_t chunk) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::size_t first = block_at(rows_, part_, r < part_.rows ? r : 0, first_code);
      const std::int8_t* codes = rows_.codes + first * 32;
      for (std::size_t block = 0; block < chunk / 32; ++block) {
        std::uint32_t* to = spread_ + r * kStride + block * kSpreadWords<kDot>;
        if constexpr (kIsNibbles<kDot>) {
          n_spread(codes + block * 32, to);
        } else {
          q_spread(codes + block * 32, to);
        }
      }
      if constexpr (kDot != IntDot::kInt8Whole) {
        const std::size_t to = r * kBlocks;
        take_factors<kDot>(rows_,
                           first,
                           chunk / 32,
                           {starts_ + to,
                            kRows * kBlocks,
                            scales_ + to,
                            kHasMinima<kDot> ? factors_ + to : nullptr});
      }
    }
  }

  template <std::size_t kCount>
  void add_strips(const std::uint8_t* strip,
                  std::size_t padded,
                  std::size_t k,
                  std::size_t chunk,
                  float* sums) {
    const IntRows<kRows, kBlocks> rows{spread_, kStride, starts_, scales_, factors_};
    const IntStrips strips{strip + scale_bytes<kDot>(padded) + k * kCodeRow<kDot>,
                           strip + k / 32 * kScaleRow<kDot>,
                           strip_bytes<kDot>(padded)};
    const IntSums to{sums, PendingSums<kRows>::kStripFloats};
    if constexpr (kDot == IntDot::kInt8Whole) {
      const LeafPart place{k == 0, k + chunk == padded};
      add_whole<kCount>(rows, {strips.codes, strip, strips.stride}, chunk / 32, place, to);
    } else {
      add_scaled<kDot, kCount>(rows, strips, chunk / 32, to);
    }
  }

  const QuantizedRows& rows_;
  const TilePart& part_;
  alignas(64) std::uint32_t spread_[kRows * kStride];
  alignas(64) std::int32_t starts_[kParts<kDot> * kRows * kBlocks];
  alignas(64) float scales_[kBlocks * kRows];
  alignas(64) float factors_[kHasMinima<kDot> ? kBlocks * kRows : 1];
};

// As many rows as part.rows says, at most kRows, which is a power of two.
template <IntDot kDot, std::size_t kRows>
void run_some_int_rows(const MatmulArgs& args, const TilePart& part) {
  if constexpr (kRows > 1) {
    if (part.rows <= kRows / 2) {
      run_some_int_rows<kDot, kRows / 2>(args, part);
      return;
    }
  }
  run_block<IntRowBlock<kDot, kRows>>(args, part);
}

template <IntDot kDot>
void run_int_rows(const MatmulArgs& args, const TilePart& whole) {
  for (std::size_t row = 0; row < whole.rows; row += kMaxIntRows) {
    TilePart part = whole;
    part.first_row += row;
    part.rows = whole.rows - row < kMaxIntRows ? whole.rows - row : kMaxIntRows;
    run_some_int_rows<kDot, kMaxIntRows>(args, part);
  }
}

inline void int_matmul_tile(const MatmulArgs& args, const TilePart& whole) {
  dispatch_int_dot(args, [&]<IntDot kDot>() { run_int_rows<kDot>(args, whole); });
}

}  // namespace
}  // namespace phalanx::kernels
