// SPDX-License-Identifier: Apache-2.0
#pragma once

// The dot products of integers over packed strips.

#include "lanes/fetch_body.h"
#include "lanes/int_formats_body.h"
#include "lanes/int_operands.h"
#include "lanes/lanes.h"
#include "lanes/row_pointers.h"

namespace phalanx::kernels {
namespace {

// Narrow lanes compute, or leave it to the processor to fetch: see kRowsOfTwoStreams.
template <std::size_t kRows, std::size_t kStrips>
inline constexpr bool kIsUnrolled = kStrips > 1 || kRows > kFewBlockRows || kMaxIntStrips == 1;

// add(i) for i = kFirst, kFirst + kStep … below kEnd.
template <std::size_t kFirst, std::size_t kEnd, std::size_t kStep, bool kUnrolls, typename Add>
PHALANX_LANES void repeat(const Add& add) {
  if constexpr (kUnrolls) {
#pragma GCC unroll 8
    for (std::size_t i = kFirst; i < kEnd; i += kStep) {
      add(i);
    }
  } else {
#pragma GCC unroll 1
    for (std::size_t i = kFirst; i < kEnd; i += kStep) {
      add(i);
    }
  }
}

// sum[r][s] += quads [kFirst, kEnd) of block `codes` of strip s times those of block `a` of row r.
template <std::size_t kFirst,
          std::size_t kEnd,
          std::size_t kRows,
          std::size_t kStrips,
          typename Fetch>
PHALANX_LANES void add_block(const Word* a,
                             std::size_t a_stride,
                             const std::uint8_t* codes,
                             std::size_t strip_stride,
                             I16 (&sum)[kRows][kStrips],
                             const Fetch& fetch) {
  const StripPointers<kStrips> of_strip(codes, strip_stride);
  const RowPointers<kRows> of_row(a, a_stride * sizeof(Word));
  const auto add_quads = [&](std::size_t q) __attribute__((always_inline)) {
    Quads w[kStrips];
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kStrips; ++s) {
      const std::uint8_t* from = of_strip[s] + q * 64;
      fetch.line(from, s, q * 4);
      w[s] = q_load(from);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        sum[r][s] = q_dot(sum[r][s], w[s], static_cast<const Word*>(of_row[r]), q);
      }
    }
  };
  repeat<kFirst, kEnd, 1, kIsUnrolled<kRows, kStrips>>(add_quads);
}
template <std::size_t kFirst,
          std::size_t kEnd,
          std::size_t kRows,
          std::size_t kStrips,
          typename Fetch>
PHALANX_LANES void add_nibbles(const Word* a,
                               std::size_t a_stride,
                               const std::uint8_t* codes,
                               std::size_t strip_stride,
                               NibbleSum (&sum)[kRows][kStrips],
                               const Fetch& fetch) {
  const StripPointers<kStrips> of_strip(codes, strip_stride);
  const RowPointers<kRows> of_row(a, a_stride * sizeof(Word));
  const auto add_quads = [&](std::size_t q) __attribute__((always_inline)) {
    CodeBytes low[kStrips];
    CodeBytes high[kStrips];
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kStrips; ++s) {
      const std::uint8_t* from = of_strip[s] + q * 32;
      fetch.line(from, s, q * 4);
      n_load(from, &low[s], &high[s]);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto* row = static_cast<const Word*>(of_row[r]);
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        sum[r][s] = n_dot(n_dot(sum[r][s], low[s], row, q), high[s], row, q + 1);
      }
    }
  };
  repeat<kFirst, kEnd, 2, kIsUnrolled<kRows, kStrips>>(add_quads);
}
// Half kHalf of a block of one strip whose codes are unpacked: many rows multiply bytes that are
// made of such.
template <IntDot kDot, std::size_t kHalf, std::size_t kRows, typename Fetch>
PHALANX_LANES void add_unpacked(const Word* a,
                                std::size_t a_stride,
                                const StripPointers<1>& strip,
                                const CodeTable* table,
                                I16 (&sum)[kRows][1],
                                const Fetch& fetch) {
  constexpr std::size_t kFirst = kHalf * 4;
  constexpr std::size_t kLines = kCodeRow<kDot> * 32 / 64;
#pragma GCC unroll 3
  for (std::size_t i = kHalf * kLines / 2; i < (kHalf + 1) * kLines / 2; ++i) {
    fetch.line(strip[0] + i * 64, 0, kFirst * 4);
  }
  CodeBytes quads[4];
  load_half<kDot, kHalf>(strip[0], table, quads);
  const RowPointers<kRows> of_row(a, a_stride * sizeof(Word));
  if constexpr (kHasTable<kDot>) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      const Quads w = q_of(quads[i]);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
        sum[r][0] = q_dot(sum[r][0], w, static_cast<const Word*>(of_row[r]), kFirst + i);
      }
    }
  } else {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto* row = static_cast<const Word*>(of_row[r]);
      const I16 first = s_dot(sum[r][0], quads[0], quads[1], row, kFirst);
      sum[r][0] = s_dot(first, quads[2], quads[3], row, kFirst + 2);
    }
  }
}

// The integer sums of a part of one block, with the bias undone.
template <IntDot kDot,
          std::size_t kPart,
          std::size_t kRows,
          std::size_t kRowBlocks,
          std::size_t kStrips,
          typename Fetch>
PHALANX_LANES void sum_part(const IntRows<kRows, kRowBlocks>& rows,
                            const IntStrips& strips,
                            std::size_t block,
                            I16 (&sum)[kRows][kStrips],
                            const Fetch& fetch) {
  const std::int32_t* starts =
      rows.starts + kPart * IntRows<kRows, kRowBlocks>::kPartStride + block;
  const Word* a = rows.spread + block * kSpreadWords<kDot>;
  const std::uint8_t* codes = strips.codes + block * 32 * kCodeRow<kDot>;
  NibbleSum nibbles[kRows][kStrips];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kStrips; ++s) {
      if constexpr (kIsNibbles<kDot>) {
        nibbles[r][s] = n_begin(starts[r * kRowBlocks]);
      } else {
        sum[r][s] = i_set(static_cast<std::uint32_t>(starts[r * kRowBlocks]));
      }
    }
  }
  constexpr std::size_t kFirst = kPart * 8 / kParts<kDot>;
  constexpr std::size_t kEnd = (kPart + 1) * 8 / kParts<kDot>;
  if constexpr (kIsUnpacked<kDot>) {
    const StripPointers<1> strip(codes, 0);
    if constexpr (kFirst < 4) {
      add_unpacked<kDot, 0>(a, rows.stride, strip, strips.table, sum, fetch);
    }
    if constexpr (kEnd > 4) {
      add_unpacked<kDot, 1>(a, rows.stride, strip, strips.table, sum, fetch);
    }
  } else if constexpr (!kIsNibbles<kDot>) {
    add_block<kFirst, kEnd>(a, rows.stride, codes, strips.stride, sum, fetch);
  } else {
    add_nibbles<kFirst, kEnd>(a, rows.stride, codes, strips.stride, nibbles, fetch);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        sum[r][s] = n_end(nibbles[r][s], starts[r * kRowBlocks]);
      }
    }
  }
}

// One block of a whole leaf.
template <std::size_t kRows, std::size_t kStrips, typename Fetch>
PHALANX_LANES void add_whole_block(const Word* a,
                                   std::size_t a_stride,
                                   const std::uint8_t* codes,
                                   std::size_t strip_stride,
                                   I16 (&sum)[kRows][kStrips],
                                   const Fetch& fetch) {
  if constexpr (kRows * kStrips >= 4) {
    add_block<0, 8>(a, a_stride, codes, strip_stride, sum, fetch);
  } else {
    // One chain through all blocks would wait for itself.
    I16 part[kRows][kStrips] = {};
    add_block<0, 8>(a, a_stride, codes, strip_stride, part, fetch);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        sum[r][s] = sum[r][s] + part[r][s];
      }
    }
  }
}

// A run of blocks of a whole leaf. Between its parts the integer sums lie in `to` by their bits.
template <std::size_t kStrips, std::size_t kRows, std::size_t kRowBlocks, typename Fetch>
PHALANX_LANES void add_whole(const IntRows<kRows, kRowBlocks>& rows,
                             const IntStrips& strips,
                             std::size_t blocks,
                             LeafPart place,
                             IntSums to,
                             Fetch& fetch) {
  I16 sum[kRows][kStrips];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kStrips; ++s) {
      if (place.begins) {
        sum[r][s] = i_set(static_cast<std::uint32_t>(rows.starts[r * kRowBlocks]));
      } else {
        sum[r][s] = i_bits(f_load(to.at(r, s)));
      }
    }
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::uint8_t* codes = strips.codes + block * 512;
    const auto& lines = fetch.template begin_codes<kStrips, 8>(codes);
    add_whole_block(rows.spread + block * kSpreadWords<IntDot::kInt8Whole>,
                    rows.stride,
                    codes,
                    strips.stride,
                    sum,
                    lines);
  }
  if (!place.ends) {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        f_store(to.at(r, s), f_bits(sum[r][s]));
      }
    }
    return;
  }
  F16 total[kRows][kStrips];
#pragma GCC unroll 2
  for (std::size_t s = 0; s < kStrips; ++s) {
    const F16 of_columns =
        f_load(reinterpret_cast<const float*>(strips.scales + s * strips.scale_stride));
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      total[r][s] = f_of_signed(sum[r][s]) * f_set(rows.scales[r * kRowBlocks]) * of_columns;
    }
  }
  put_sums(total, place, to);
}

// total = fma(the integer sum of a part, its scale, total), and of a minimum after it.
template <IntDot kDot,
          std::size_t kPart,
          std::size_t kStrips,
          std::size_t kRows,
          std::size_t kRowBlocks,
          typename Fetch>
PHALANX_LANES void add_part(const IntRows<kRows, kRowBlocks>& rows,
                            const IntStrips& strips,
                            std::size_t block,
                            F16 (&total)[kRows][kStrips],
                            const Fetch& fetch) {
  const float* scales = rows.scales + block;
  I16 sum[kRows][kStrips];
  sum_part<kDot, kPart>(rows, strips, block, sum, fetch);
#pragma GCC unroll 2
  for (std::size_t s = 0; s < kStrips; ++s) {
    const std::uint8_t* of_strip = strips.scales + s * strips.scale_stride;
    const F16 of_weights = weight_scales<kDot, kPart>(of_strip, block);
    const F16 minima = weight_minima<kDot, kPart>(of_strip, block);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      F16 scale = f_set(scales[r * kRowBlocks]);
      if constexpr (kHasGroups<kDot>) {
        scale = scale * of_weights;
      }
      total[r][s] = f_fused(f_of_signed(sum[r][s]), scale, total[r][s]);
      if constexpr (kHasMinima<kDot>) {
        const float* factors =
            rows.factors + kPart * IntRows<kRows, kRowBlocks>::kPartStride + block;
        total[r][s] = f_fused(minima, f_set(factors[r * kRowBlocks]), total[r][s]);
      }
    }
  }
}

// Block by block, and within them part by part. Where no leaf begins, the sums go on.
template <IntDot kDot,
          std::size_t kStrips,
          std::size_t kRows,
          std::size_t kRowBlocks,
          typename Fetch>
PHALANX_LANES void add_scaled(const IntRows<kRows, kRowBlocks>& rows,
                              const IntStrips& strips,
                              std::size_t blocks,
                              LeafPart place,
                              IntSums to,
                              Fetch& fetch) {
  F16 total[kRows][kStrips];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kStrips; ++s) {
      if (place.begins) {
        total[r][s] = f_set(0.0F);
      } else {
        total[r][s] = f_load(to.at(r, s));
      }
    }
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    constexpr std::size_t kBytes = 32 * kCodeRow<kDot>;
    const auto& lines =
        fetch.template begin_codes<kStrips, kBytes / 64>(strips.codes + block * kBytes);
    add_part<kDot, 0>(rows, strips, block, total, lines);
    if constexpr (kParts<kDot> == 2) {
      add_part<kDot, 1>(rows, strips, block, total, lines);
    }
  }
  put_sums(total, place, to);
}

}  // namespace
}  // namespace phalanx::kernels
