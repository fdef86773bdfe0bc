// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/kernels/layout.h"

namespace phalanx::kernels {

// How a packed weight is encoded. The values are part of the keys of weight arenas. A packed weight
// is a row of strips of 16 columns, each by itself contiguous and a multiple of 64 bytes long:
// first its scales, rounded up to 64 bytes, then its codes. K is padded to a multiple of 32; a
// group is 16 or 32 elements of K. An element is code · scale − minimum; the minimum is 0 where a
// format has none. Those from kInt8G16 on hold what GGUF files have, and are made of nothing else.
//
// Those whose names end in K have scales and minima in two levels: each is an integer, its step,
// times an f16 that a superblock of 64 elements shares. The product is exact in fp32.
enum class WeightFormat : std::uint8_t {
  kBf16 = 1,     // no scales; [K/2][16][2] bf16
  kInt8 = 2,     // [16] f32, one for a column; [K/4][16][4] uint8 = code + 128
  kInt8G32 = 3,  // [K/32][16] f16, one for a group; codes as kInt8
  // Scales as kInt8G32. [K/8][16][4] bytes: byte (q, column, j) holds the code + 8 of k = 8q + j in
  // its low nibble and that of k = 8q + 4 + j in its high one.
  kInt4 = 4,
  kInt8G16 = 5,  // [K/16][16] f32, one for a group; codes as kInt8
  // Codes of five bits: for each 32 elements of K the lower four as nibbles lie, and then a line
  // [16][4] of bytes: byte (column, j) has the fifth bits of k = j, 4 + j, … 28 + j, from its
  // lowest bit on.
  kInt5G32Min = 6,  // [K/32][2][16] f32: the scale and the minimum of a group; 0 … 31 as they are
  kInt4G32Min = 7,  // scales and minima as kInt5G32Min; codes as kInt4, but 0 … 15 as they are
  kInt8G16Min = 8,  // [K/16][2][16] f32: the scale and the minimum of a group; codes as kInt8
  // Scales in two levels: for each superblock, of which the last one may be half, first [16] f16,
  // one for its scales, and [16] f16 for its minima if there are any; then for each group [16]
  // int8, the steps of its scales, and [16] int8 for its minima.
  //
  // Codes of six bits: for each 16 elements of K three lines [16][4] of bytes. Byte (column, j) of
  // the first holds the lower 4 bits of k = j in its low nibble and those of k = 4 + j in its high
  // one, that of the second k = 8 + j and k = 12 + j; the third the upper 2 bits of k = j, 4 + j,
  // 8 + j and 12 + j, from its lowest bits on.
  kInt6G16K = 9,      // stored as code + 32
  kInt5G32MinK = 10,  // codes as kInt5G32Min
  kInt4G32MinK = 11,  // codes as kInt4G32Min
  kInt4G16MinK = 12,  // codes as kInt4G32Min
  kInt4G16K = 13,     // codes as kInt4
  // Nibbles as kInt4, but each is an index into the 16 codes of its format (WeightTraits::table;
  // docs/arithmetic.md, "Packed"). Scales: [K/32][16] f32, one for a group, in those named G32;
  // [K/16][16] f32 in those named G16.
  kIq4G32 = 14,     // the codes of IQ4_NL and IQ4_XS
  kE2m1G32 = 15,    // the numbers of FP4, doubled: MXFP4
  kE2m1G16 = 16,    // … NVFP4
  kIq3XxsG32 = 17,  // the codes of IQ3_XXS
  kIq3SG32 = 18,    // the codes of IQ3_S
  kIq2G32 = 19,     // the codes of all types of IQ2 and IQ1
  kIq2G16 = 20,     // as kIq2G32
  kInt5G32 = 21,    // scales as kInt8G32; five bits, stored as code + 16
};
inline constexpr std::array kWeightFormats = {
    WeightFormat::kBf16,        WeightFormat::kInt8,        WeightFormat::kInt8G32,
    WeightFormat::kInt4,        WeightFormat::kInt8G16,     WeightFormat::kInt5G32Min,
    WeightFormat::kInt4G32Min,  WeightFormat::kInt8G16Min,  WeightFormat::kInt6G16K,
    WeightFormat::kInt5G32MinK, WeightFormat::kInt4G32MinK, WeightFormat::kInt4G16MinK,
    WeightFormat::kInt4G16K,    WeightFormat::kIq4G32,      WeightFormat::kE2m1G32,
    WeightFormat::kE2m1G16,     WeightFormat::kIq3XxsG32,   WeightFormat::kIq3SG32,
    WeightFormat::kIq2G32,      WeightFormat::kIq2G16,      WeightFormat::kInt5G32};
inline constexpr std::size_t kSuperblock = 64;  // elements of K

// The codes that nibbles stand for.
using CodeTable = std::array<std::int8_t, 16>;

struct WeightTraits {
  std::string_view name;          // "int8-g32"
  std::uint32_t code_bits = 0;    // 16 for kBf16
  std::int32_t code_bias = 0;     // added to a code where it is stored
  std::uint32_t group = 0;        // elements of K with one scale; 0: a whole column
  std::uint32_t scale_bytes = 0;  // of one scale: a step, an f16 or an f32; 0: none
  bool has_minima = false;
  bool from_floats = false;  // pack_weight_strips() makes it
  // Where a code is stored as its index; null elsewhere.
  const CodeTable* table = nullptr;

  [[nodiscard]] bool has_two_levels() const { return scale_bytes == 1; }
};
// Requires one of kWeightFormats.
[[nodiscard]] const WeightTraits& traits_of(WeightFormat format);
[[nodiscard]] inline std::string_view weight_format_name(WeightFormat format) {
  return traits_of(format).name;
}

// The largest K of a weight of integers: sums of its products stay within an int32.
inline constexpr std::size_t kMaxIntegerK = 131072;

// Bytes of the scales at the beginning of a strip of `rows` inputs; 0 for kBf16.
[[nodiscard]] std::size_t strip_scale_bytes(WeightFormat format, std::size_t rows);

// Bytes of a packed weight of `columns` outputs and `rows` inputs: of n strips n times those of
// one.
[[nodiscard]] std::size_t weight_bytes(WeightFormat format, std::size_t rows, std::size_t columns);

// A packed weight as kernels read it. Kernels take format and sizes for granted: they are checked
// once, where a program is built (check_matmul(), check_embedding()).
// Ownership: borrows.
struct WeightView {
  WeightFormat format = WeightFormat::kBf16;
  std::uint32_t rows = 0;           // inputs (K); zeros are added up to a multiple of 32
  std::uint32_t columns = 0;        // outputs; the rest of the last strip is padding
  const std::byte* data = nullptr;  // 64-byte aligned, weight_bytes(format, rows, columns)
  // Bytes from the first strip of 64 columns to that of the next 64, where something else lies
  // between them: a multiple of 64. 0: strips follow one another.
  std::size_t group_stride = 0;
};
inline constexpr std::uint32_t kGroupColumns = 64;

// Whether it is a weight that kernels can read; `data` may still be null.
//
// Errors: kInvalidArgument  what was expected and what was found
[[nodiscard]] Status check_weight(const WeightView& weight);

// Packs columns [first_column, first_column + 16 · n) of a weight into a packed weight whose first
// strip is to[0]; n = to.size() / weight_bytes(format, from.columns, 16). Padding columns and the
// padding along K are zeros; denormals become zeros and NaNs kBf16Nan. Integers have one scale for
// the columns of `from`: a leaf of a summation tree is packed by itself.
//
//   from  [columns, k]  bf16, row-major: row = output column, as in a checkpoint
//
// Math:     docs/arithmetic.md, "Integer formats". The result does not depend on the float mode.
// Requires: a format from floats; first_column a multiple of 16; to.size() a whole number of
//           strips.
// Cost:     a range of strips is a unit of work, so that a caller can spread a weight over threads.
// Errors:   kDataLoss  integers cannot code an infinity or a NaN; the message names the column.
//                      Never for kBf16
[[nodiscard]] Status pack_weight_strips(tensor::MatrixView<const Bf16> from,
                                        std::size_t first_column,
                                        WeightFormat format,
                                        std::span<std::byte> to);

// The whole weight.
// Requires: to.size() == weight_bytes(format, from.columns, from.rows); only finite numbers, unless
//           the format is kBf16.
void pack_weight(tensor::MatrixView<const Bf16> from, WeightFormat format, std::span<std::byte> to);

// Output columns as codes, scales and minima, of which there is one for 16 elements: element i is
// codes[i] · scales[i / 16] − minima[i / 16]. Where there are superscales, scales and minima are
// steps, which those of the superblock of i are multiplied by.
// Ownership: borrows.
struct CodedColumns {
  const std::int8_t* codes = nullptr;  // [columns, k]
  const float* scales = nullptr;       // [columns, k / 16]
  const float* minima = nullptr;       // [columns, k / 16]
  std::size_t columns = 0;
  std::size_t k = 0;
  const float* superscales = nullptr;  // [columns, k / 64], rounded up; null: none
  const float* superminima = nullptr;  // as superscales
  // What is columns and element 0 in the weight that these are of, for messages.
  std::size_t first_column = 0;
  std::size_t first_k = 0;
};

// Packs columns that are coded already, keeping every code, scale and minimum. Where a group has 32
// elements, those of its first 16 are taken.
//
// Requires: an integer format that can hold what is given (its codes, its groups, scales that are
//           f16 where it stores such, no minima where it has none, superscales if and only if it
//           has two levels: f16 then, and steps of −128 … 127) and is not kInt8;
//           k a multiple of 32; to.size() the strips of all columns.
// Errors:   kDataLoss  a scale or minimum is infinite or NaN; the message names column and element
[[nodiscard]] Status pack_coded_strips(const CodedColumns& from,
                                       WeightFormat format,
                                       std::span<std::byte> to);

}  // namespace phalanx::kernels
