// SPDX-License-Identifier: Apache-2.0
#include "ref/int_matmul.h"

#include <bit>
#include <cmath>

#include "packed_codes.h"

namespace phalanx::kernels::ref {

namespace {

// The quantised activations of one row that one leaf reads.
struct LeafCodes {
  const std::int8_t* codes;
  const float* scales;  // of each block

  LeafCodes(const QuantizedRows& rows, std::uint32_t row, std::uint32_t first_k)
      : codes(rows.codes + row * rows.code_stride + first_k),
        scales(rows.scales + (row * rows.code_stride + first_k) / kDotBlock) {}
};

using Strip = PackedStrip<const std::byte>;

// Requires end − begin ≤ kMaxIntegerK: then nothing overflows.
std::int32_t code_sum(const LeafCodes& a,
                      const Strip& strip,
                      std::size_t column,
                      std::size_t begin,
                      std::size_t end) {
  std::int32_t sum = 0;
  for (std::size_t k = begin; k < end; ++k) {
    sum += a.codes[k] * strip.code(k, column);
  }
  return sum;
}

// One scale for all of K on either side: one sum of integers.
float whole_dot(const LeafCodes& a, const Strip& strip, std::size_t column, std::size_t k) {
  const auto sum = static_cast<float>(code_sum(a, strip, column, 0, k));
  return sum * a.scales[0] * strip.scale(0, column);
}

// −(the scale of a group of activations · the sum of its codes), which its minima are multiplied
// by.
float minimum_factor(const LeafCodes& a, float scale, std::size_t begin, std::size_t end) {
  std::int32_t sum = 0;
  for (std::size_t k = begin; k < end; ++k) {
    sum += a.codes[k];
  }
  return -(scale * static_cast<float>(sum));
}

float grouped_dot(
    const LeafCodes& a, ScaleSpan span, const Strip& strip, std::size_t column, std::size_t k) {
  const bool weight_groups = strip.traits.group != 0;
  const bool activation_groups = span == ScaleSpan::kBlock;
  const std::size_t step = weight_groups ? strip.traits.group : kDotBlock;
  float acc = 0.0F;
  for (std::size_t group = 0; group < k; group += step) {
    const auto sum = static_cast<float>(code_sum(a, strip, column, group, group + step));
    const float of_activations = activation_groups ? a.scales[group / kDotBlock] : 1.0F;
    const float of_weights = weight_groups ? strip.scale(group, column) : 1.0F;
    acc = fused(sum, of_activations * of_weights, acc);
    if (strip.traits.has_minima) {
      const float factor = minimum_factor(a, of_activations, group, group + step);
      acc = fused(strip.minimum(group, column), factor, acc);
    }
  }
  acc = activation_groups ? acc : acc * a.scales[0];
  return weight_groups ? acc : acc * strip.scale(0, column);
}

}  // namespace

// The product is exact in binary64. Their sum is rounded to odd there: where it is not exact, to
// the neighbour whose last bit is set, so that the second rounding sees on which side of a tie the
// exact sum lies. The error of the first sum is exact (Knuth).
float fused(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = c;
  const double sum = product + addend;
  if (!std::isfinite(sum)) {
    return static_cast<float>(sum);
  }
  const double part = sum - product;
  const double error = (product - (sum - part)) + (addend - part);
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if (error != 0.0 && (bits & 1) == 0) {
    bits += (error > 0.0) == (sum > 0.0) ? 1 : ~std::uint64_t{0};
  }
  return static_cast<float>(std::bit_cast<double>(bits));
}

std::size_t strip_offset(const WeightView& weight, std::size_t column, std::size_t strip_bytes) {
  if (weight.group_stride == 0) {
    return column / kStripColumns * strip_bytes;
  }
  return column / kGroupColumns * weight.group_stride +
         column % kGroupColumns / kStripColumns * strip_bytes;
}

void int_dot_strip(const QuantizedRows& rows,
                   std::uint32_t row,
                   const MatmulLeaf& leaf,
                   std::uint32_t first_column,
                   float (&sums)[kStripColumns]) {
  const WeightView& weight = leaf.weight;
  const std::size_t strip_bytes = weight_bytes(weight.format, weight.rows, kStripColumns);
  const Strip strip(
      weight.format, weight.rows, weight.data + strip_offset(weight, first_column, strip_bytes));
  const LeafCodes a(rows, row, leaf.first_k);
  const std::size_t k = padded_k(weight.rows);
  const bool is_whole = weight.format == WeightFormat::kInt8 && rows.span == ScaleSpan::kLeaf;
  for (std::size_t column = 0; column < kStripColumns; ++column) {
    sums[column] =
        is_whole ? whole_dot(a, strip, column, k) : grouped_dot(a, rows.span, strip, column, k);
  }
}

}  // namespace phalanx::kernels::ref
