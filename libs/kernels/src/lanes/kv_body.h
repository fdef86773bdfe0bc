// SPDX-License-Identifier: Apache-2.0
#pragma once

// Keys and values of rows go into their KV tiles.

#include "phalanx/kernels/rows.h"

#include "lanes/kv_cache_body.h"
#include "lanes/lanes.h"
#include "lanes/math_body.h"
#include "lanes/rows_body.h"

namespace phalanx::kernels {
namespace {

inline constexpr std::uint32_t kBf16Exponent = 0x7F80;  // all ones: infinite or NaN

// bf16 numbers in the halves of each lane that kHalves names; those that are not finite become
// zeros and are counted.
template <std::uint32_t kHalves>
PHALANX_LANES I16 finite_halves(I16 words, std::uint64_t* non_finite) {
  constexpr std::uint32_t kExponents = kHalves & (kBf16Exponent | kBf16Exponent << 16);
  for (const std::uint32_t half : {0xFFFFU, 0xFFFF0000U}) {
    const std::uint32_t exponent = kExponents & half;
    if (exponent != 0) {
      const M16 bad = is_equal(words & i_set(exponent), i_set(exponent));
      words = choose(bad, words & i_set(~half), words);
      *non_finite += static_cast<std::uint64_t>(__builtin_popcount(m_bits(bad)));
    }
  }
  return words;
}

// A key is a column of its strip: a pair of its numbers in each line of 16 words.
PHALANX_LANES void append_key(const Bf16* key,
                              std::size_t head_dim,
                              std::uint32_t* column,
                              std::uint64_t* non_finite) {
  alignas(64) std::uint32_t words[16];
  for (std::size_t i = 0; i < head_dim; i += 32) {
    const std::size_t pairs = head_dim - i < 32 ? (head_dim - i) / 2 : 16;
    const I16 bits = i_bits(f_load_first(reinterpret_cast<const float*>(key + i), pairs));
    i_store(words, finite_halves<0xFFFFFFFF>(bits, non_finite));
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      column[(i / 2 + pair) * kStripColumns] = words[pair];
    }
  }
}

// Eight keys whose columns follow one another.
PHALANX_LANES void append_eight_keys(const Bf16* first,
                                     std::size_t key_stride,
                                     std::size_t head_dim,
                                     std::uint32_t* column,
                                     std::uint64_t* non_finite) {
  for (std::size_t i = 0; i < head_dim; i += 32) {
    const std::size_t pairs = head_dim - i < 32 ? (head_dim - i) / 2 : 16;
    I16 words[8];
#pragma GCC unroll 8
    for (std::size_t key = 0; key < 8; ++key) {
      const auto* numbers = reinterpret_cast<const float*>(first + key * key_stride + i);
      words[key] = finite_halves<0xFFFFFFFF>(i_bits(f_load_first(numbers, pairs)), non_finite);
    }
    i_store_columns(column + i / 2 * kStripColumns, kStripColumns, words, pairs);
  }
}

PHALANX_LANES I16 value_bits(const float* value, std::uint64_t* non_finite) {
  return finite_halves<0xFFFF>(f_to_bf16(f_load(value)), non_finite);
}

// A value is half of a line of each strip of 16 dimensions; the other half may be another thread's.
PHALANX_LANES void append_value(const float* value,
                                std::size_t head_dim,
                                Bf16* to,
                                std::uint64_t* non_finite) {
  alignas(64) std::uint32_t words[16];
  for (std::size_t i = 0; i < head_dim; i += 16) {
    i_store(words, value_bits(value + i, non_finite));
    Bf16* half = to + i * kKvBlockTokens;
    for (std::size_t column = 0; column < kStripColumns; ++column) {
      half[2 * column] = {static_cast<std::uint16_t>(words[column])};
    }
  }
}

// Two values that share their lines.
PHALANX_LANES void append_values(const float* even,
                                 const float* odd,
                                 std::size_t head_dim,
                                 Bf16* to,
                                 std::uint64_t* non_finite) {
  for (std::size_t i = 0; i < head_dim; i += 16) {
    const I16 words =
        value_bits(even + i, non_finite) | i_left<16>(value_bits(odd + i, non_finite));
    i_store(reinterpret_cast<std::uint32_t*>(to + i * kKvBlockTokens), words);
  }
}

inline constexpr std::size_t kRowsAhead = 3;

// The rows that one tile of the operation puts into the tiles of one head.
struct AppendRows {
  const KvAppendArgs& args;
  std::size_t head;
  std::size_t first;
  std::size_t end;

  [[nodiscard]] PHALANX_LANES const Bf16* key(std::size_t row) const {
    return args.keys + row * args.key_stride + head * args.head_dim;
  }
  [[nodiscard]] PHALANX_LANES const float* value(std::size_t row) const {
    return args.values + row * args.value_stride + head * args.head_dim;
  }
  // Whether it and the seven rows behind it go to columns of one strip that follow one another.
  [[nodiscard]] PHALANX_LANES bool begins_eight_columns(std::size_t row) const {
    const std::uint64_t slot = args.slots[row];
    bool together = row + 8 <= end && slot % kStripColumns <= kStripColumns - 8;
    for (std::size_t i = 1; together && i < 8; ++i) {
      together = args.slots[row + i] == slot + i;
    }
    return together;
  }
  // Whether it goes behind the row before it, which is not of another sequence then.
  [[nodiscard]] PHALANX_LANES bool follows(std::size_t row) const {
    return args.slots[row] == args.slots[row - 1] + 1;
  }
  // Rows whose lines are fetched before this one is written. A key has a part of each line of its
  // strip, and stores alone would wait for memory a third longer (Zen 4, 16 sequences).
  [[nodiscard]] PHALANX_LANES std::size_t first_later(std::size_t row) const {
    return row == first ? row + 1 : row + kRowsAhead;
  }
  [[nodiscard]] PHALANX_LANES std::size_t end_later(std::size_t row) const {
    return row + kRowsAhead < end ? row + kRowsAhead + 1 : end;
  }
  [[nodiscard]] PHALANX_LANES std::byte* tile(std::size_t row) const {
    return args.kv.data + args.slots[row] / kTokens * args.kv.block_stride +
           head * args.kv.head_stride;
  }
};

PHALANX_LANES void fetch_bf16_row(const AppendRows& rows, std::size_t row) {
  const std::size_t dim = rows.args.head_dim;
  const std::size_t key_stride = up_to_32(dim);
  const std::size_t token = rows.args.slots[row] % kTokens;
  const auto* keys = reinterpret_cast<const Bf16*>(rows.tile(row));
  fetch_all_to_second(keys + token / kStripColumns * kStripColumns * key_stride,
                      kStripColumns * dim * sizeof(Bf16));
  const Bf16* line = keys + kTokens * key_stride + token / 2 * kStripColumns * 2;
  for (std::size_t i = 0; i < dim; i += 16) {
    prefetch_second(line + i * kTokens);
  }
}

PHALANX_LANES void append_bf16_rows(const AppendRows& rows, std::uint64_t* non_finite) {
  const KvAppendArgs& args = rows.args;
  const std::size_t dim = args.head_dim;
  const std::size_t key_stride = up_to_32(dim);
  std::size_t keys_end = rows.first;  // of rows whose keys are there
  for (std::size_t row = rows.first; row < rows.end; ++row) {
    const std::uint64_t slot = args.slots[row];
    const std::size_t token = slot % kTokens;
    auto* keys = reinterpret_cast<Bf16*>(rows.tile(row));
    for (std::size_t later = rows.first_later(row); later < rows.end_later(row); ++later) {
      if (!rows.follows(later)) {
        fetch_bf16_row(rows, later);
      }
    }
    if (row == keys_end) {
      auto* column = reinterpret_cast<std::uint32_t*>(keys + token / kStripColumns * kStripColumns *
                                                                 key_stride) +
                     token % kStripColumns;
      if (rows.begins_eight_columns(row)) {
        append_eight_keys(rows.key(row), args.key_stride, dim, column, non_finite);
        keys_end += 8;
      } else {
        append_key(rows.key(row), dim, column, non_finite);
        ++keys_end;
      }
    }
    const float* value = rows.value(row);
    Bf16* line = keys + kTokens * key_stride + token / 2 * kStripColumns * 2;
    if (token % 2 == 0 && row + 1 < rows.end && args.slots[row + 1] == slot + 1) {
      append_values(value, value + args.value_stride, dim, line, non_finite);
    } else if (token % 2 == 0 || row == rows.first || args.slots[row - 1] + 1 != slot) {
      append_value(value, dim, line + token % 2, non_finite);
    }
  }
}

// One group of a key as kInt8G32 codes columns: 32 numbers, of which those beyond the head are
// zeros. `column` is where its first four codes go.
PHALANX_LANES void append_key_group(const float* x,
                                    std::uint16_t* scale_at,
                                    std::uint32_t* column,
                                    std::uint64_t* non_finite) {
  constexpr std::uint16_t kInfinity = 0x7C00;
  constexpr std::uint16_t kLargest = 0x7BFF;
  const std::uint32_t bits = largest_bits(x, 32);
  const bool is_finite = bits < kInfinite;
  *non_finite += is_finite ? 0 : 1;
  const float largest = __builtin_bit_cast(float, bits);
  std::uint16_t scale = 0;
  if (is_finite && largest >= kSmallestCoded) {
    scale = to_f16(largest / 127.0F);
    scale = scale >= kInfinity ? kLargest : scale;
  }
  *scale_at = scale;
  alignas(64) std::int8_t codes[32];
  for (std::size_t i = 0; i < 32; i += 16) {
    I16 nearest = i_set(0);
    if (scale != 0) {
      const F16 quotient = f_load(x + i) / f_set(of_f16(scale));
      nearest = i_nearest(f_smaller(f_larger(quotient, f_set(-127.0F)), f_set(127.0F)));
    }
    i_store_bytes(codes + i, nearest);
  }
  for (std::size_t quad = 0; quad < 8; ++quad) {
    std::uint32_t word;
    __builtin_memcpy(&word, codes + quad * 4, sizeof(word));
    column[quad * kStripColumns] = word ^ 0x80808080U;  // + 128
  }
}

// Groups beyond the head are not written, nor read.
PHALANX_LANES void append_key_codes(const Bf16* key,
                                    std::size_t head_dim,
                                    std::byte* strip,
                                    std::size_t column,
                                    std::uint64_t* non_finite) {
  alignas(64) float wide[kMaxHeadDim];
  const std::size_t padded = up_to_32(head_dim);
  store_row(wide, reinterpret_cast<const std::uint16_t*>(key), head_dim, padded);
  auto* scales = reinterpret_cast<std::uint16_t*>(strip);
  auto* codes = reinterpret_cast<std::uint32_t*>(strip + scale_bytes<IntDot::kInt8G32>(padded));
  for (std::size_t block = 0; block < padded / 32; ++block) {
    append_key_group(wide + block * 32,
                     scales + block * kStripColumns + column,
                     codes + block * 8 * kStripColumns + column,
                     non_finite);
  }
}

PHALANX_LANES void append_value_codes(const float* value,
                                      std::size_t head_dim,
                                      std::uint16_t* scale_at,
                                      std::int8_t* codes,
                                      std::uint64_t* non_finite) {
  const std::uint32_t bits = largest_bits(value, head_dim);
  const bool is_finite = bits < kInfinite;
  *non_finite += is_finite ? 0 : 1;
  const float largest = __builtin_bit_cast(float, bits);
  const bool is_coded = is_finite && largest >= kSmallestCoded;
  I16 scale = i_set(0);
  F16 inverse = f_set(0.0F);
  if (is_coded) {
    scale = f_to_bf16(f_set(largest / 127.0F));
    inverse = f_set(1.0F) / f_of_bf16_bits(scale);
  }
  i_store_low(scale_at, scale, 1);
  for (std::size_t i = 0; i < head_dim; i += 16) {
    const I16 nearest = is_coded ? i_nearest(f_load(value + i) * inverse) : i_set(0);
    i_store_bytes(codes + i * kTokens, nearest);
  }
}

PHALANX_LANES void fetch_int8_row(const AppendRows& rows, std::size_t row) {
  const std::size_t dim = rows.args.head_dim;
  const std::size_t strip_stride = strip_bytes<IntDot::kInt8G32>(up_to_32(dim));
  const std::size_t token = rows.args.slots[row] % kTokens;
  const std::byte* tile = rows.tile(row);
  fetch_all_to_second(tile + token / kStripColumns * strip_stride, strip_stride);
  const std::byte* values = tile + 2 * strip_stride;
  prefetch_second(values);
  for (std::size_t i = 0; i < dim; i += 16) {
    prefetch_second(values + (kTokens * sizeof(Bf16)) + token * kStripColumns + i * kTokens);
  }
}

PHALANX_LANES void append_int8_rows(const AppendRows& rows, std::uint64_t* non_finite) {
  const std::size_t dim = rows.args.head_dim;
  const std::size_t strip_stride = strip_bytes<IntDot::kInt8G32>(up_to_32(dim));
  for (std::size_t row = rows.first; row < rows.end; ++row) {
    const std::size_t token = rows.args.slots[row] % kTokens;
    std::byte* tile = rows.tile(row);
    for (std::size_t later = rows.first_later(row); later < rows.end_later(row); ++later) {
      if (!rows.follows(later)) {
        fetch_int8_row(rows, later);
      }
    }
    append_key_codes(rows.key(row),
                     dim,
                     tile + token / kStripColumns * strip_stride,
                     token % kStripColumns,
                     non_finite);
    std::byte* values = tile + 2 * strip_stride;
    append_value_codes(
        rows.value(row),
        dim,
        reinterpret_cast<std::uint16_t*>(values) + token,
        reinterpret_cast<std::int8_t*>(values) + kTokens * sizeof(Bf16) + token * kStripColumns,
        non_finite);
  }
}

inline void kv_append_tile(const KvAppendArgs& args, std::uint32_t tile) {
  const std::uint32_t row_tile = tile / args.kv_heads;
  const AppendRows rows{args,
                        tile % args.kv_heads,
                        std::size_t{row_tile} * kRowTile,
                        end_of_row_tile(row_tile, args.rows)};
  std::uint64_t non_finite = 0;
  if (args.kv.format == KvFormat::kInt8) {
    append_int8_rows(rows, &non_finite);
  } else {
    append_bf16_rows(rows, &non_finite);
  }
  if (non_finite != 0) {
    args.non_finite->fetch_add(non_finite, std::memory_order_relaxed);
  }
}

}  // namespace
}  // namespace phalanx::kernels
