// SPDX-License-Identifier: Apache-2.0
// Row operations that only move and round numbers: one implementation for all instruction sets.
#include "phalanx/kernels/rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "phalanx/base/check.h"

#include "packed_codes.h"

namespace phalanx::kernels {

namespace {

void read_bf16(const std::byte* strip, std::size_t column, std::size_t k, float* x) {
  const Bf16* packed = reinterpret_cast<const Bf16*>(strip) + column * 2;
  for (std::size_t i = 0; i < k; ++i) {
    x[i] = tensor::to_float(packed[i / 2 * 2 * kStripColumns + i % 2]);
  }
}

void read_codes(const PackedStrip<const std::byte>& strip,
                std::size_t column,
                std::size_t k,
                float* x) {
  for (std::size_t i = 0; i < k; ++i) {
    const float product = static_cast<float>(strip.code(i, column)) * strip.scale(i, column);
    x[i] = strip.traits.has_minima ? product - strip.minimum(i, column) : product;
  }
}

}  // namespace

void embedding(const EmbeddingArgs& args, std::uint32_t tile) {
  const WeightView& table = args.table;
  const std::size_t strip_bytes = weight_bytes(table.format, table.rows, kStripColumns);
  const std::uint32_t end = std::min((tile + 1) * kRowTile, args.rows);
  for (std::uint32_t row = tile * kRowTile; row < end; ++row) {
    const auto token = static_cast<std::size_t>(args.tokens[row]);
    PHALANX_DCHECK(token < table.columns, "a token id outside the table");
    const std::byte* strip = table.data + token / kStripColumns * strip_bytes;
    float* x = args.x + row * args.x_stride;
    if (table.format == WeightFormat::kBf16) {
      read_bf16(strip, token % kStripColumns, table.rows, x);
    } else {
      read_codes({table.format, table.rows, strip}, token % kStripColumns, table.rows, x);
    }
  }
}

Status check_embedding(const EmbeddingArgs& args) {
  if (auto checked = check_weight(args.table); !checked) {
    return std::move(checked).error().with("embedding");
  }
  if (args.table.group_stride != 0) {
    return invalid_argument("embedding: expected strips that follow one another");
  }
  if (args.table.rows > args.x_stride) {
    return invalid_argument("embedding: expected rows of at most " + std::to_string(args.x_stride) +
                            " numbers, found " + std::to_string(args.table.rows));
  }
  return ok();
}

}  // namespace phalanx::kernels
