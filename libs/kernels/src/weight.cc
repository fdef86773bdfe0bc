// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/weight.h"

#include <algorithm>
#include <array>
#include <string>

#include "phalanx/base/check.h"
#include "phalanx/step/choices.h"

#include "packed_codes.h"
#include "weight_codes.h"

namespace phalanx::kernels {

namespace {

void pack_bf16(tensor::MatrixView<const Bf16> from, std::size_t first_column, std::span<Bf16> to) {
  const std::size_t k_padded = padded_k(from.columns);
  std::fill(to.begin(), to.end(), Bf16{});
  const std::size_t columns = to.size() / k_padded;
  for (std::size_t c = 0; c < columns && first_column + c < from.rows; ++c) {
    const Bf16* row = from.row(first_column + c);
    Bf16* strip = to.data() + packed_index(c, 0, k_padded);
    for (std::size_t k = 0; k < from.columns; ++k) {
      strip[(k / 2) * kStripColumns * 2 + k % 2] = tensor::canonical(row[k]);
    }
  }
}

constexpr auto kF32 = static_cast<std::uint32_t>(sizeof(float));
constexpr auto kF16 = static_cast<std::uint32_t>(sizeof(tensor::F16));
constexpr auto kStep = static_cast<std::uint32_t>(sizeof(std::int8_t));

// Of IQ4_NL and IQ4_XS in GGUF.
constexpr CodeTable kIq4 = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Twice the numbers of FP4, which has two zeros.
constexpr CodeTable kE2m1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr CodeTable kIq3Xxs = {
    -62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62};
constexpr CodeTable kIq3S = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};
// Of all types of IQ2 and IQ1; the zeros are in no file.
constexpr CodeTable kIq2 = {-43, -25, -9, -8, -7, -1, 0, 0, 0, 0, 1, 7, 8, 9, 25, 43};

// As kWeightFormats.
constexpr std::array<WeightTraits, kWeightFormats.size()> kTraits = {{
    {.name = "bf16", .code_bits = 16, .from_floats = true},
    {.name = "int8", .code_bits = 8, .code_bias = 128, .scale_bytes = kF32, .from_floats = true},
    {.name = "int8-g32",
     .code_bits = 8,
     .code_bias = 128,
     .group = 32,
     .scale_bytes = kF16,
     .from_floats = true},
    {.name = "int4",
     .code_bits = 4,
     .code_bias = 8,
     .group = 32,
     .scale_bytes = kF16,
     .from_floats = true},
    {.name = "int8-g16", .code_bits = 8, .code_bias = 128, .group = 16, .scale_bytes = kF32},
    {.name = "int5-g32-min", .code_bits = 5, .group = 32, .scale_bytes = kF32, .has_minima = true},
    {.name = "int4-g32-min", .code_bits = 4, .group = 32, .scale_bytes = kF32, .has_minima = true},
    {.name = "int8-g16-min",
     .code_bits = 8,
     .code_bias = 128,
     .group = 16,
     .scale_bytes = kF32,
     .has_minima = true},
    {.name = "int6-g16-k", .code_bits = 6, .code_bias = 32, .group = 16, .scale_bytes = kStep},
    {.name = "int5-g32-min-k",
     .code_bits = 5,
     .group = 32,
     .scale_bytes = kStep,
     .has_minima = true},
    {.name = "int4-g32-min-k",
     .code_bits = 4,
     .group = 32,
     .scale_bytes = kStep,
     .has_minima = true},
    {.name = "int4-g16-min-k",
     .code_bits = 4,
     .group = 16,
     .scale_bytes = kStep,
     .has_minima = true},
    {.name = "int4-g16-k", .code_bits = 4, .code_bias = 8, .group = 16, .scale_bytes = kStep},
    {.name = "iq4-g32", .code_bits = 4, .group = 32, .scale_bytes = kF32, .table = &kIq4},
    {.name = "e2m1-g32", .code_bits = 4, .group = 32, .scale_bytes = kF32, .table = &kE2m1},
    {.name = "e2m1-g16", .code_bits = 4, .group = 16, .scale_bytes = kF32, .table = &kE2m1},
    {.name = "iq3-xxs-g32", .code_bits = 4, .group = 32, .scale_bytes = kF32, .table = &kIq3Xxs},
    {.name = "iq3-s-g32", .code_bits = 4, .group = 32, .scale_bytes = kF32, .table = &kIq3S},
    {.name = "iq2-g32", .code_bits = 4, .group = 32, .scale_bytes = kF32, .table = &kIq2},
    {.name = "iq2-g16", .code_bits = 4, .group = 16, .scale_bytes = kF32, .table = &kIq2},
    {.name = "int5-g32", .code_bits = 5, .code_bias = 16, .group = 32, .scale_bytes = kF16},
}};

constexpr bool has_the_names_of_options() {
  std::size_t found = 0;
  for (const WeightTraits& traits : kTraits) {
    if (traits.from_floats &&
        (found == step::kQuantizations.size() || step::kQuantizations[found++] != traits.name)) {
      return false;
    }
  }
  return found == step::kQuantizations.size();
}
static_assert(has_the_names_of_options());

bool is_format(WeightFormat format) {
  return std::ranges::count(kWeightFormats, format) != 0;
}

}  // namespace

const WeightTraits& traits_of(WeightFormat format) {
  PHALANX_CHECK(is_format(format), "not a weight format");
  return kTraits[static_cast<std::size_t>(format) - 1];
}

std::size_t strip_scale_bytes(WeightFormat format, std::size_t rows) {
  const WeightTraits& traits = traits_of(format);
  if (traits.has_two_levels()) {
    const std::size_t superblocks = (padded_k(rows) + kSuperblock - 1) / kSuperblock;
    return tensor::round_up(superblocks * superblock_bytes(traits), tensor::kRowAlignment);
  }
  const std::size_t groups = traits.group == 0 ? 1 : padded_k(rows) / traits.group;
  const std::size_t of_group =
      kStripColumns * traits.scale_bytes * (traits.has_minima ? std::size_t{2} : 1);
  return tensor::round_up(groups * of_group, tensor::kRowAlignment);
}

std::size_t weight_bytes(WeightFormat format, std::size_t rows, std::size_t columns) {
  const std::size_t code_bytes = kStripColumns * padded_k(rows) * traits_of(format).code_bits / 8;
  return padded_columns(columns) / kStripColumns * (strip_scale_bytes(format, rows) + code_bytes);
}

Status check_weight(const WeightView& weight) {
  if (weight.rows == 0 || weight.columns == 0) {
    return invalid_argument("weight: expected inputs and outputs, found " +
                            std::to_string(weight.rows) + " × " + std::to_string(weight.columns));
  }
  if (!is_format(weight.format)) {
    return invalid_argument("weight: expected a format of 1 to " +
                            std::to_string(kWeightFormats.size()) + ", found " +
                            std::to_string(static_cast<unsigned>(weight.format)));
  }
  if (weight.format != WeightFormat::kBf16 && weight.rows > kMaxIntegerK) {
    return invalid_argument("weight: expected at most " + std::to_string(kMaxIntegerK) +
                            " inputs of integers, found " + std::to_string(weight.rows));
  }
  const std::size_t least = weight_bytes(weight.format, weight.rows, kGroupColumns);
  const std::size_t stride = weight.group_stride;
  if (stride != 0 && (stride < least || stride % 64 != 0)) {
    return invalid_argument("weight: expected 64 columns to take at least " +
                            std::to_string(least) + " bytes, a multiple of 64, found " +
                            std::to_string(stride));
  }
  return ok();
}

Status pack_weight_strips(tensor::MatrixView<const Bf16> from,
                          std::size_t first_column,
                          WeightFormat format,
                          std::span<std::byte> to) {
  const std::size_t strip_bytes = weight_bytes(format, from.columns, kStripColumns);
  PHALANX_CHECK(traits_of(format).from_floats, "a format that is not made of floats");
  PHALANX_CHECK(first_column % kStripColumns == 0, "a strip begins at a multiple of 16 columns");
  PHALANX_CHECK(strip_bytes != 0 && to.size() % strip_bytes == 0,
                "the packed memory is not a whole number of strips");
  if (format == WeightFormat::kBf16) {
    pack_bf16(from, first_column, {reinterpret_cast<Bf16*>(to.data()), to.size() / sizeof(Bf16)});
    return ok();
  }
  return pack_codes(from, first_column, format, to);
}

void pack_weight(tensor::MatrixView<const Bf16> from,
                 WeightFormat format,
                 std::span<std::byte> to) {
  PHALANX_CHECK(to.size() == weight_bytes(format, from.columns, from.rows),
                "the packed memory does not fit the weight");
  PHALANX_CHECK(pack_weight_strips(from, 0, format, to).has_value(),
                "the weight has numbers that the format cannot code");
}

}  // namespace phalanx::kernels
