// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/weight.h"

#include <algorithm>
#include <string>

#include "phalanx/base/check.h"

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

std::size_t strip_code_bytes(WeightFormat format, std::size_t rows) {
  const std::size_t elements = kStripColumns * padded_k(rows);
  switch (format) {
    case WeightFormat::kBf16:
      return elements * sizeof(Bf16);
    case WeightFormat::kInt8:
    case WeightFormat::kInt8G32:
      return elements;
    case WeightFormat::kInt4:
      return elements / 2;
  }
  PHALANX_CHECK(false, "not a weight format");
  return 0;
}

bool is_format(WeightFormat format) {
  return std::ranges::count(kWeightFormats, format) != 0;
}

}  // namespace

std::string_view weight_format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
      return "bf16";
    case WeightFormat::kInt8:
      return "int8";
    case WeightFormat::kInt8G32:
      return "int8-g32";
    case WeightFormat::kInt4:
      return "int4";
  }
  PHALANX_CHECK(false, "not a weight format");
  return {};
}

std::size_t strip_scale_bytes(WeightFormat format, std::size_t rows) {
  switch (format) {
    case WeightFormat::kBf16:
      return 0;
    case WeightFormat::kInt8:
      return kStripColumns * sizeof(float);
    case WeightFormat::kInt8G32:
    case WeightFormat::kInt4:
      return tensor::round_up(padded_k(rows) / kDotBlock * kStripColumns * sizeof(tensor::F16),
                              tensor::kRowAlignment);
  }
  PHALANX_CHECK(false, "not a weight format");
  return 0;
}

std::size_t weight_bytes(WeightFormat format, std::size_t rows, std::size_t columns) {
  return padded_columns(columns) / kStripColumns *
         (strip_scale_bytes(format, rows) + strip_code_bytes(format, rows));
}

Status check_weight(const WeightView& weight) {
  if (weight.rows == 0 || weight.columns == 0) {
    return invalid_argument("weight: expected inputs and outputs, found " +
                            std::to_string(weight.rows) + " × " + std::to_string(weight.columns));
  }
  if (!is_format(weight.format)) {
    return invalid_argument("weight: expected bf16, int8, int8-g32 or int4, found format " +
                            std::to_string(static_cast<unsigned>(weight.format)));
  }
  if (weight.format != WeightFormat::kBf16 && weight.rows > kMaxIntegerK) {
    return invalid_argument("weight: expected at most " + std::to_string(kMaxIntegerK) +
                            " inputs of integers, found " + std::to_string(weight.rows));
  }
  return ok();
}

Status pack_weight_strips(tensor::MatrixView<const Bf16> from,
                          std::size_t first_column,
                          WeightFormat format,
                          std::span<std::byte> to) {
  const std::size_t strip_bytes = weight_bytes(format, from.columns, kStripColumns);
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
