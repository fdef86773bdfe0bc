// SPDX-License-Identifier: Apache-2.0
#pragma once

// Keys and values of rows go into their KV tiles.

#include "phalanx/kernels/rows.h"

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

inline void kv_append_tile(const KvAppendArgs& args, std::uint32_t tile) {
  const std::uint32_t head = tile % args.kv_heads;
  const std::uint32_t first = tile / args.kv_heads * kRowTile;
  const std::uint32_t end = end_of_row_tile(tile / args.kv_heads, args.rows);
  const std::size_t dim = args.head_dim;
  const std::size_t key_stride = (dim + 31) / 32 * 32;
  std::uint64_t non_finite = 0;
  for (std::size_t row = first; row < end; ++row) {
    const std::uint64_t slot = args.slots[row];
    const std::size_t token = slot % kKvBlockTokens;
    Bf16* keys =
        args.kv.data + slot / kKvBlockTokens * args.kv.block_stride + head * args.kv.head_stride;
    Bf16* values = keys + kKvBlockTokens * key_stride;
    auto* strip =
        reinterpret_cast<std::uint32_t*>(keys + token / kStripColumns * kStripColumns * key_stride);
    append_key(args.keys + row * args.key_stride + head * dim,
               dim,
               strip + token % kStripColumns,
               &non_finite);
    const float* value = args.values + row * args.value_stride + head * dim;
    Bf16* line = values + token / 2 * kStripColumns * 2;
    if (token % 2 == 0 && row + 1 < end && args.slots[row + 1] == slot + 1) {
      append_values(value, value + args.value_stride, dim, line, &non_finite);
    } else if (token % 2 == 0 || row == first || args.slots[row - 1] + 1 != slot) {
      append_value(value, dim, line + token % 2, &non_finite);
    }
  }
  if (non_finite != 0) {
    args.non_finite->fetch_add(non_finite, std::memory_order_relaxed);
  }
}

}  // namespace
}  // namespace phalanx::kernels
