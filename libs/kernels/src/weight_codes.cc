// SPDX-License-Identifier: Apache-2.0
// Weights as integers with scales: quantisation of bf16 numbers, and what is coded already. A group
// below kSmallestCoded is zeros, so no operation here meets a denormal that changes a code, and the
// codes are the same in every float mode that rounds to nearest.
#include "weight_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "phalanx/base/check.h"
#include "phalanx/kernels/quantize.h"

#include "packed_codes.h"

namespace phalanx::kernels {

namespace {

using Strip = PackedStrip<std::byte>;

constexpr std::uint16_t kF16Infinity = 0x7C00;
constexpr std::uint16_t kF16Largest = 0x7BFF;
constexpr std::uint16_t kF16Magnitude = 0x7FFF;

// Adding and taking away 1.5 · 2^23 leaves the nearest integer, ties to even.
std::int32_t nearest_within(float x, float low, float high) {
  constexpr float kRound = 0x1.8p23F;
  return static_cast<std::int32_t>((std::clamp(x, low, high) + kRound) - kRound);
}

// The first element of largest magnitude.
float peak_of(std::span<const Bf16> elements) {
  float peak = 0.0F;
  for (const Bf16 element : elements) {
    const float value = tensor::to_float(element);
    peak = std::abs(value) > std::abs(peak) ? value : peak;
  }
  return std::abs(peak) < kSmallestCoded ? 0.0F : peak;
}

// The nearest f16, but the largest finite one for what is beyond, and one zero.
tensor::F16 f16_scale(float scale) {
  const tensor::F16 rounded = tensor::to_f16(scale);
  const auto magnitude = static_cast<std::uint16_t>(rounded.bits & kF16Magnitude);
  if (magnitude == 0) {
    return {};
  }
  if (magnitude >= kF16Infinity) {
    return {static_cast<std::uint16_t>((rounded.bits & ~kF16Magnitude) | kF16Largest)};
  }
  return rounded;
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

struct CodeRange {
  float low;
  float high;
};
constexpr CodeRange kEightBits = {-127.0F, 127.0F};
constexpr CodeRange kFourBits = {-8.0F, 7.0F};

// Elements k, k + 1, … of a column by the scale that is stored for them.
void put_codes(const Strip& strip,
               std::size_t column,
               std::size_t k,
               std::span<const Bf16> elements,
               CodeRange range) {
  const float scale = strip.scale(k, column);
  if (scale == 0.0F) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      strip.set_code(k + i, column, 0);
    }
    return;
  }
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const float quotient = tensor::to_float(tensor::canonical(elements[i])) / scale;
    strip.set_code(k + i, column, nearest_within(quotient, range.low, range.high));
  }
}

// Codes of elements that do not exist; of a table, which need not have a 0, the first one.
void put_padding(const Strip& strip, std::size_t column, std::size_t begin, std::size_t end) {
  const std::int32_t code = strip.traits.table != nullptr ? strip.traits.table->front() : 0;
  for (std::size_t k = begin; k < end; ++k) {
    strip.set_code(k, column, code);
  }
}

// In the words of files, where what is a column of a product is a row of its weights.
Error not_coded(std::size_t column, const std::string& what, WeightFormat format) {
  return data_loss("row " + std::to_string(column) + ": " + what + ", which " +
                   std::string(weight_format_name(format)) + " cannot code");
}

// Where superscale and superminimum of element k of a column are.
std::size_t superblock_of(const CodedColumns& from, std::size_t column, std::size_t k) {
  return column * ((from.k + kSuperblock - 1) / kSuperblock) + k / kSuperblock;
}

// The element of a column from which a scale or minimum is no number; k where all are.
std::size_t bad_scale(const CodedColumns& from, std::size_t column) {
  constexpr std::size_t kRun = 16;
  for (std::size_t k = 0; k < from.k; k += kRun) {
    const std::size_t at = (column * from.k + k) / kRun;
    if (!std::isfinite(from.scales[at]) || !std::isfinite(from.minima[at])) {
      return k;
    }
    if (from.superscales != nullptr) {
      const std::size_t superblock = superblock_of(from, column, k);
      if (!std::isfinite(from.superscales[superblock]) ||
          !std::isfinite(from.superminima[superblock])) {
        return k;
      }
    }
  }
  return from.k;
}

// Scale and minimum of the group that begins with element k of a column; `at` is its first run.
void put_scales(const Strip& strip,
                std::size_t k,
                std::size_t column,
                const CodedColumns& from,
                std::size_t at) {
  if (strip.traits.has_two_levels()) {
    store(strip.scale_at(k, column), static_cast<std::int8_t>(from.scales[at]));
  } else if (strip.traits.scale_bytes == sizeof(tensor::F16)) {
    store(strip.scale_at(k, column), tensor::to_f16(from.scales[at]));
  } else {
    store(strip.scale_at(k, column), from.scales[at]);
  }
  if (!strip.traits.has_minima) {
    return;
  }
  if (strip.traits.has_two_levels()) {
    store(strip.minimum_at(k, column), static_cast<std::int8_t>(from.minima[at]));
  } else {
    store(strip.minimum_at(k, column), from.minima[at]);
  }
}

void put_coded(const Strip& strip,
               std::size_t strip_column,
               const CodedColumns& from,
               std::size_t column) {
  const WeightTraits& traits = strip.traits;
  for (std::size_t k = 0; k < from.k; k += traits.group) {
    put_scales(strip, k, strip_column, from, (column * from.k + k) / 16);
  }
  for (std::size_t k = 0; traits.has_two_levels() && k < from.k; k += kSuperblock) {
    const std::size_t superblock = superblock_of(from, column, k);
    store(strip.superscale_at(k, strip_column), tensor::to_f16(from.superscales[superblock]));
    if (traits.has_minima) {
      store(strip.superminimum_at(k, strip_column), tensor::to_f16(from.superminima[superblock]));
    }
  }
  for (std::size_t k = 0; k < from.k; ++k) {
    strip.set_code(k, strip_column, from.codes[column * from.k + k]);
  }
}

}  // namespace

void code_column(const Strip& strip, std::size_t column, std::span<const Bf16> elements) {
  if (strip.traits.group == 0) {
    store(strip.scale_at(0, column), std::abs(peak_of(elements)) / kEightBits.high);
    put_codes(strip, column, 0, elements, kEightBits);
    return;
  }
  const bool is_int4 = strip.traits.code_bits == 4;
  for (std::size_t k = 0; k < elements.size(); k += kDotBlock) {
    const auto group = elements.subspan(k, std::min(kDotBlock, elements.size() - k));
    const float peak = peak_of(group);
    const float scale = is_int4 ? peak / kFourBits.low : std::abs(peak) / kEightBits.high;
    store(strip.scale_at(k, column), f16_scale(scale));
    put_codes(strip, column, k, group, is_int4 ? kFourBits : kEightBits);
  }
}

// Column `column` of `from` as column `at` of a strip.
Status pack_column(tensor::MatrixView<const Bf16> from,
                   std::size_t column,
                   WeightFormat format,
                   const Strip& strip,
                   std::size_t at) {
  const std::span<const Bf16> elements(from.row(column), from.columns);
  const auto bad = std::ranges::find_if_not(elements, tensor::is_finite);
  if (bad != elements.end()) {
    const auto k = static_cast<std::size_t>(bad - elements.begin());
    return not_coded(column, "column " + std::to_string(k) + " is infinite or NaN", format);
  }
  code_column(strip, at, elements);
  return ok();
}

Status pack_codes(tensor::MatrixView<const Bf16> from,
                  std::size_t first_column,
                  WeightFormat format,
                  std::span<std::byte> to) {
  const std::size_t strip_bytes = weight_bytes(format, from.columns, kStripColumns);
  std::fill(to.begin(), to.end(), std::byte{0});
  for (std::size_t offset = 0; offset < to.size(); offset += strip_bytes) {
    const Strip strip(format, from.columns, to.data() + offset);
    for (std::size_t c = 0; c < kStripColumns; ++c) {
      const std::size_t column = first_column + offset / strip_bytes * kStripColumns + c;
      const std::size_t k = column < from.rows ? from.columns : 0;
      if (k != 0) {
        PHALANX_RETURN_IF_ERROR(pack_column(from, column, format, strip, c));
      }
      put_padding(strip, c, k, padded_k(from.columns));
    }
  }
  return ok();
}

Status pack_coded_strips(const CodedColumns& from, WeightFormat format, std::span<std::byte> to) {
  const std::size_t strip_bytes = weight_bytes(format, from.k, kStripColumns);
  PHALANX_CHECK(traits_of(format).group != 0, "a format without groups");
  PHALANX_CHECK(traits_of(format).has_two_levels() == (from.superscales != nullptr),
                "superscales where the format has two levels, and only there");
  PHALANX_CHECK(from.k % kDotBlock == 0 && to.size() == weight_bytes(format, from.k, from.columns),
                "the packed memory does not fit the columns");
  std::fill(to.begin(), to.end(), std::byte{0});
  for (std::size_t column = 0; column < padded_columns(from.columns); ++column) {
    const std::size_t offset = column / kStripColumns * strip_bytes;
    const Strip strip(format, from.k, to.data() + offset);
    if (column >= from.columns) {
      put_padding(strip, column % kStripColumns, 0, from.k);
      continue;
    }
    if (const std::size_t bad = bad_scale(from, column); bad != from.k) {
      return not_coded(from.first_column + column,
                       "the scale of column " + std::to_string(from.first_k + bad) +
                           " is infinite or NaN, or makes numbers of MXFP4 infinite or denormal",
                       format);
    }
    put_coded(strip, column % kStripColumns, from, column);
  }
  return ok();
}

}  // namespace phalanx::kernels
