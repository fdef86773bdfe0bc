// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>

#include "phalanx/kernels/rows.h"

#include "ref/entries.h"

namespace phalanx::kernels::ref {

namespace {

// `value` where it is finite; otherwise zero, and counted.
Bf16 finite_or_zero(Bf16 value, std::uint64_t* non_finite) {
  if (tensor::is_finite(value)) {
    return value;
  }
  ++*non_finite;
  return {};
}

std::uint64_t append_row(const KvAppendArgs& args, std::uint32_t row, std::uint32_t head) {
  const std::uint64_t block = args.slots[row] / kKvBlockTokens;
  const std::size_t token = args.slots[row] % kKvBlockTokens;
  const std::size_t head_offset = std::size_t{head} * args.head_dim;
  const Bf16* key = args.keys + row * args.key_stride + head_offset;
  const float* value = args.values + row * args.value_stride + head_offset;
  Bf16* tile = args.kv.data + block * args.kv.block_stride + head * args.kv.head_stride;
  Bf16* keys = tile + packed_index(token, 0, padded_k(args.head_dim));
  Bf16* values =
      tile + kv_tile_key_elements(args.head_dim) + packed_index(0, token, kKvBlockTokens);
  std::uint64_t non_finite = 0;
  for (std::size_t i = 0; i < args.head_dim; i += 2) {
    Bf16* pair = keys + i * kStripColumns;
    pair[0] = finite_or_zero(key[i], &non_finite);
    pair[1] = finite_or_zero(key[i + 1], &non_finite);
  }
  for (std::size_t first = 0; first < args.head_dim; first += kStripColumns) {
    Bf16* strip = values + first * kKvBlockTokens;
    for (std::size_t i = 0; i < kStripColumns; ++i) {
      strip[2 * i] = finite_or_zero(tensor::to_bf16(value[first + i]), &non_finite);
    }
  }
  return non_finite;
}

}  // namespace

void kv_append(const KvAppendArgs& args, std::uint32_t tile) {
  const std::uint32_t head = tile % args.kv_heads;
  const std::uint32_t first = tile / args.kv_heads * kRowTile;
  const std::uint32_t end = std::min(first + kRowTile, args.rows);
  std::uint64_t non_finite = 0;
  for (std::uint32_t row = first; row < end; ++row) {
    non_finite += append_row(args, row, head);
  }
  if (non_finite != 0) {
    args.non_finite->fetch_add(non_finite, std::memory_order_relaxed);
  }
}

}  // namespace phalanx::kernels::ref
