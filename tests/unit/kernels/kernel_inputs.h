// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/base/hash.h"
#include "phalanx/kernels/float_mode.h"
#include "phalanx/kernels/isa.h"
#include "phalanx/kernels/kernel_table.h"
#include "phalanx/tensor/half.h"

namespace phalanx::kernels {

// Numbers that depend on nothing but a seed.
class Inputs {
 public:
  explicit Inputs(std::uint64_t seed) : state_(mix64(seed + 1)) {}

  std::uint64_t bits() { return mix64(state_ += 0x9E3779B97F4A7C15ULL); }
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(bits() % limit); }
  // Uniform in [-1, 1).
  float uniform() { return static_cast<float>(static_cast<double>(bits() >> 11) * 0x1p-52 - 1.0); }
  // A number from the corners of the format, or an ordinary one.
  float extreme() {
    constexpr float kCorners[] = {0.0F,
                                  -0.0F,
                                  0x1p-126F,
                                  -0x1p-126F,
                                  0x1p-140F,
                                  -0x1p-149F,
                                  0x1p127F,
                                  -0x1p127F,
                                  1e30F,
                                  -1e-30F,
                                  1.0F,
                                  -1.0F,
                                  3e-39F,
                                  0x1p-63F,
                                  0x1p-64F,
                                  65504.0F};
    const std::uint32_t pick = below(32);
    return pick < 16 ? kCorners[pick] : uniform() * 4.0F;
  }
  // As extreme(), and now and then an infinity or a NaN.
  float lawless() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float corners[] = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
    return below(64) == 0 ? corners[below(3)] : extreme();
  }

 private:
  std::uint64_t state_;
};

enum class Kind { kOrdinary, kExtreme, kLawless };

inline std::vector<float> floats(std::size_t count, std::uint64_t seed, Kind kind) {
  Inputs inputs(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = kind == Kind::kOrdinary  ? inputs.uniform()
            : kind == Kind::kExtreme ? inputs.extreme()
                                     : inputs.lawless();
  }
  return values;
}

inline std::vector<Bf16> bf16s(std::size_t count, std::uint64_t seed, Kind kind) {
  const std::vector<float> values = floats(count, seed, kind);
  std::vector<Bf16> rounded(count);
  tensor::to_bf16(values.data(), rounded.data(), count);
  return rounded;
}

inline std::span<std::byte> bytes_of(std::vector<Bf16>& values) {
  return std::as_writable_bytes(std::span(values));
}

// A packed weight of `rows` inputs and `columns` outputs.
inline WeightView bf16_weight(const std::vector<Bf16>& packed,
                              std::size_t rows,
                              std::size_t columns) {
  return {.format = WeightFormat::kBf16,
          .rows = static_cast<std::uint32_t>(rows),
          .columns = static_cast<std::uint32_t>(columns),
          .data = std::as_bytes(std::span(packed)).data()};
}

// fp32 results are compared by bits; all NaNs are one value (docs/arithmetic.md, "Numbers").
inline void expect_same_bits(std::span<const float> actual, std::span<const float> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(actual[i]) && std::isnan(expected[i])) {
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(actual[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << "element " << i << ": " << actual[i] << " against " << expected[i];
  }
}

inline void expect_same_bits(std::span<const Bf16> actual, std::span<const Bf16> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].bits, expected[i].bits) << "element " << i;
  }
}

// fp32 rows to be written, each with floats behind it that are nobody's.
class GuardedRows {
 public:
  GuardedRows(std::size_t rows, std::size_t columns)
      : columns_(columns), all_(rows * stride(), kGuard) {}

  [[nodiscard]] float* data() { return all_.data(); }
  [[nodiscard]] std::size_t stride() const { return columns_ + 16; }

  // The rows one after the other. What is behind them must be as it was.
  [[nodiscard]] std::vector<float> take() const {
    std::vector<float> rows;
    for (std::size_t at = 0; at < all_.size(); at += stride()) {
      const std::span<const float> row = std::span(all_).subspan(at, stride());
      rows.insert(rows.end(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(columns_));
      for (const float behind : row.subspan(columns_)) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(behind), std::bit_cast<std::uint32_t>(kGuard));
      }
    }
    return rows;
  }

 private:
  static constexpr float kGuard = -0x1.5a5a5ap100F;

  std::size_t columns_;
  std::vector<float> all_;
};

// Whether `narrow` is `wide` rounded: the two forms of a result.
inline void expect_rounded(std::span<const Bf16> narrow, std::span<const float> wide) {
  std::vector<Bf16> rounded(wide.size());
  tensor::to_bf16(wide.data(), rounded.data(), wide.size());
  expect_same_bits(narrow, rounded);
}

// A test that runs once for each vector instruction set of this machine, in the float mode.
class EachIsa : public ::testing::TestWithParam<Isa> {
 protected:
  [[nodiscard]] const KernelTable& table() const { return kernel_table(GetParam()); }
  [[nodiscard]] static const KernelTable& ref() { return kernel_table(Isa::kRef); }

 private:
  FloatModeScope mode_;
};

inline std::vector<Isa> vector_isas() {
  std::vector<Isa> isas = available_isas();
  isas.erase(isas.begin());  // kRef, which is what the others are compared with
  return isas;
}

inline std::string isa_test_name(const ::testing::TestParamInfo<Isa>& info) {
  return std::string(isa_name(info.param));
}

}  // namespace phalanx::kernels
