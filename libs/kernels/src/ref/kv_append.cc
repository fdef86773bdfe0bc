// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <span>

#include "phalanx/kernels/quantize.h"
#include "phalanx/kernels/rows.h"

#include "ref/code.h"
#include "ref/entries.h"
#include "weight_codes.h"

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

// The rows of one head: where a key comes from and where it goes to.
struct Token {
  const Bf16* key;
  const float* value;
  std::byte* tile;
  std::size_t index;  // within the tile
};

Token token_of(const KvAppendArgs& args, std::uint32_t row, std::uint32_t head) {
  const std::size_t offset = std::size_t{head} * args.head_dim;
  return {args.keys + row * args.key_stride + offset,
          args.values + row * args.value_stride + offset,
          args.kv.tile(args.slots[row] / kKvBlockTokens, head),
          args.slots[row] % kKvBlockTokens};
}

std::uint64_t append_bf16(const Token& token, std::size_t head_dim) {
  std::uint64_t non_finite = 0;
  auto* keys = reinterpret_cast<Bf16*>(token.tile);
  for (std::size_t i = 0; i < head_dim; ++i) {
    keys[packed_index(token.index, i, padded_k(head_dim))] =
        finite_or_zero(token.key[i], &non_finite);
  }
  auto* values = reinterpret_cast<Bf16*>(token.tile + kv_tile(KvFormat::kBf16, head_dim).values);
  for (std::size_t i = 0; i < head_dim; ++i) {
    values[packed_index(i, token.index, kKvBlockTokens)] =
        finite_or_zero(tensor::to_bf16(token.value[i]), &non_finite);
  }
  return non_finite;
}

// A key is a column of a weight. A group that has a number that is not finite is zeros.
std::uint64_t append_key_codes(const Token& token, std::size_t head_dim) {
  std::uint64_t non_finite = 0;
  std::array<Bf16, kMaxHeadDim> key{};
  std::copy_n(token.key, head_dim, key.begin());
  for (std::size_t i = 0; i < head_dim; i += kDotBlock) {
    const auto group = std::span(key).subspan(i, std::min(kDotBlock, head_dim - i));
    if (!std::ranges::all_of(group, [](Bf16 x) { return tensor::is_finite(x); })) {
      std::ranges::fill(group, Bf16{});
      ++non_finite;
    }
  }
  const std::size_t strip = weight_bytes(WeightFormat::kInt8G32, head_dim, kStripColumns);
  code_column({WeightFormat::kInt8G32, head_dim, token.tile + token.index / kStripColumns * strip},
              token.index % kStripColumns,
              std::span(key).first(padded_k(head_dim)));
  return non_finite;
}

std::uint64_t append_value_codes(const Token& token, std::size_t head_dim) {
  const std::span<const float> value(token.value, head_dim);
  const bool is_finite = std::ranges::all_of(value, [](float x) { return std::isfinite(x); });
  float largest = 0.0F;
  for (const float x : value) {
    largest = is_finite && std::abs(x) > largest ? std::abs(x) : largest;
  }
  const bool is_coded = largest >= kSmallestCoded;
  const Bf16 scale = is_coded ? tensor::to_bf16(largest / 127.0F) : Bf16{};
  const float inverse = is_coded ? 1.0F / tensor::to_float(scale) : 0.0F;
  const KvTile tile = kv_tile(KvFormat::kInt8, head_dim);
  std::memcpy(token.tile + tile.value_scales + token.index * sizeof(scale), &scale, sizeof(scale));
  for (std::size_t i = 0; i < head_dim; ++i) {
    const std::int8_t code = is_coded ? code_of(value[i], inverse) : std::int8_t{0};
    token.tile[tile.values + (i / kStripColumns * kKvBlockTokens + token.index) * kStripColumns +
               i % kStripColumns] = static_cast<std::byte>(code);
  }
  return is_finite ? 0 : 1;
}

}  // namespace

void kv_append(const KvAppendArgs& args, std::uint32_t tile) {
  const std::uint32_t head = tile % args.kv_heads;
  const std::uint32_t first = tile / args.kv_heads * kRowTile;
  const std::uint32_t end = std::min(first + kRowTile, args.rows);
  std::uint64_t non_finite = 0;
  for (std::uint32_t row = first; row < end; ++row) {
    const Token token = token_of(args, row, head);
    if (args.kv.format == KvFormat::kInt8) {
      non_finite +=
          append_key_codes(token, args.head_dim) + append_value_codes(token, args.head_dim);
    } else {
      non_finite += append_bf16(token, args.head_dim);
    }
  }
  if (non_finite != 0) {
    args.non_finite->fetch_add(non_finite, std::memory_order_relaxed);
  }
}

}  // namespace phalanx::kernels::ref
