// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/rows.h"

#include <cmath>

#include "matmul_tables.h"
#include "scalar_math.h"

namespace phalanx::kernels {
namespace {

// What is rounded, and the same before that, from another run over the same inputs.
struct NormResult {
  std::vector<float> x;
  std::vector<Bf16> out;
  std::vector<float> wide;
};
struct SwigluResult {
  std::vector<Bf16> out;
  std::vector<float> wide;
};

template <typename Result>
void expect_same(const Result& actual, const Result& expected) {
  expect_same_bits(actual.out, expected.out);
  expect_same_bits(actual.wide, expected.wide);
  expect_rounded(actual.out, actual.wide);
}

NormResult run_norm(const KernelTable& table,
                    std::uint32_t rows,
                    std::uint32_t hidden,
                    std::uint64_t seed,
                    Kind kind,
                    bool with_bias = false) {
  const std::vector<float> x = floats(rows * hidden, seed, kind);
  NormResult result{x, std::vector<Bf16>(rows * hidden), {}};
  const std::vector<float> delta = floats(rows * hidden, seed + 1, kind);
  const std::vector<float> gain = floats(hidden, seed + 2, Kind::kOrdinary);
  const std::vector<float> bias = floats(hidden, seed + 3, kind);
  RmsNormArgs args{result.x.data(),
                   hidden,
                   delta.data(),
                   hidden,
                   gain.data(),
                   1e-6F,
                   result.out.data(),
                   hidden,
                   rows,
                   hidden,
                   with_bias ? bias.data() : nullptr};
  for (std::uint32_t tile = 0; tile < row_tiles(rows); ++tile) {
    table.rms_norm(args, tile);
  }
  std::vector<float> again = x;
  GuardedRows wide(rows, hidden);
  args.x = again.data();
  args.out = nullptr;
  args.out_stride = wide.stride();
  args.out_wide = wide.data();
  for (std::uint32_t tile = 0; tile < row_tiles(rows); ++tile) {
    table.rms_norm(args, tile);
  }
  expect_same_bits(again, result.x);
  result.wide = wide.take();
  return result;
}

std::vector<Bf16> run_heads(const KernelTable& table,
                            std::uint32_t head_dim,
                            bool with_gain,
                            std::uint64_t seed,
                            Kind kind) {
  constexpr std::uint32_t kRows = 11;
  constexpr std::uint32_t kHeads = 3;
  const std::vector<float> x = floats(kRows * kHeads * head_dim, seed, kind);
  const std::vector<float> gain = floats(head_dim, seed + 1, Kind::kOrdinary);
  const std::vector<float> cos = floats(kRows * head_dim / 2, seed + 2, Kind::kOrdinary);
  const std::vector<float> sin = floats(kRows * head_dim / 2, seed + 3, Kind::kOrdinary);
  std::vector<Bf16> out(x.size());
  const HeadNormRopeArgs args{x.data(),
                              std::size_t{kHeads} * head_dim,
                              with_gain ? gain.data() : nullptr,
                              1e-6F,
                              cos.data(),
                              sin.data(),
                              head_dim / 2,
                              out.data(),
                              std::size_t{kHeads} * head_dim,
                              kRows,
                              kHeads,
                              head_dim};
  for (std::uint32_t tile = 0; tile < row_tiles(kRows); ++tile) {
    table.head_norm_rope(args, tile);
  }
  return out;
}

SwigluResult run_swiglu(const KernelTable& table,
                        const std::vector<float>& gate,
                        const std::vector<float>& up,
                        std::uint32_t columns) {
  const auto rows = static_cast<std::uint32_t>(gate.size() / columns);
  std::vector<Bf16> out(gate.size());
  GuardedRows wide(rows, columns);
  SwigluArgs args{gate.data(), columns, up.data(), columns, out.data(), columns, rows, columns};
  for (std::uint32_t tile = 0; tile < row_tiles(rows); ++tile) {
    table.swiglu(args, tile);
  }
  args.out = nullptr;
  args.out_stride = wide.stride();
  args.out_wide = wide.data();
  for (std::uint32_t tile = 0; tile < row_tiles(rows); ++tile) {
    table.swiglu(args, tile);
  }
  return {out, wide.take()};
}

class RowsOnEachIsa : public EachMatmulTable {};

TEST_P(RowsOnEachIsa, RmsNormEqualsRef) {
  for (const Kind kind : {Kind::kOrdinary, Kind::kExtreme, Kind::kLawless}) {
    for (const std::uint32_t hidden : {1U, 15U, 16U, 17U, 64U, 100U, 1024U}) {
      for (const bool with_bias : {false, true}) {
        const NormResult actual = run_norm(table(), 9, hidden, hidden, kind, with_bias);
        const NormResult expected = run_norm(ref(), 9, hidden, hidden, kind, with_bias);
        expect_same_bits(actual.x, expected.x);
        expect_same(actual, expected);
      }
    }
  }
}

// A wrong last bit of fp32 survives the rounding to bf16 in one of some 2^15 elements only.
TEST_P(RowsOnEachIsa, EqualsRefInTheLastBitOfFp32) {
  const NormResult actual = run_norm(table(), 400, 1024, 3, Kind::kOrdinary);
  const NormResult expected = run_norm(ref(), 400, 1024, 3, Kind::kOrdinary);
  expect_same(actual, expected);
  const std::vector<float> gate = floats(400000, 4, Kind::kOrdinary);
  const std::vector<float> up = floats(400000, 5, Kind::kOrdinary);
  expect_same(run_swiglu(table(), gate, up, 1000), run_swiglu(ref(), gate, up, 1000));
}

// Gains that put every product on a tie of bf16, to both sides: then the last bit of the scale, and
// with it the order of the sum of squares, decides the result.
TEST_P(RowsOnEachIsa, RmsNormKeepsTheOrderOfItsSum) {
  constexpr std::uint32_t kHidden = 80;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<float> x = floats(kHidden, seed, Kind::kOrdinary);
    float lanes[16] = {};
    for (std::size_t i = 0; i < kHidden; ++i) {
      lanes[i % 16] = lanes[i % 16] + x[i] * x[i];
    }
    const float mean = scalar::sum_lanes(lanes) / static_cast<float>(kHidden);
    const float scale = 1.0F / std::sqrt(mean + 1e-6F);
    std::vector<float> gain(kHidden);
    std::vector<Bf16> expected(kHidden);
    for (std::size_t i = 0; i < kHidden; ++i) {
      gain[i] = (i % 2 == 0 ? 0x1.01p0F : 0x1.03p0F) / (x[i] * scale);
      expected[i] = tensor::to_bf16(x[i] * scale * gain[i]);
    }
    std::vector<Bf16> out(kHidden);
    table().rms_norm(
        {x.data(), kHidden, nullptr, 0, gain.data(), 1e-6F, out.data(), kHidden, 1, kHidden}, 0);
    expect_same_bits(out, expected);
  }
}

TEST_P(RowsOnEachIsa, HeadNormRopeEqualsRef) {
  for (const Kind kind : {Kind::kOrdinary, Kind::kExtreme, Kind::kLawless}) {
    for (std::uint32_t head_dim = 16; head_dim <= kMaxHeadDim; head_dim += 16) {
      for (const bool with_gain : {false, true}) {
        expect_same_bits(run_heads(table(), head_dim, with_gain, head_dim, kind),
                         run_heads(ref(), head_dim, with_gain, head_dim, kind));
      }
    }
  }
}

TEST_P(RowsOnEachIsa, SwigluEqualsRef) {
  for (const Kind kind : {Kind::kOrdinary, Kind::kExtreme, Kind::kLawless}) {
    for (const std::uint32_t columns : {1U, 7U, 16U, 33U, 96U}) {
      const std::vector<float> gate = floats(20 * columns, columns, kind);
      const std::vector<float> up = floats(20 * columns, columns + 1, kind);
      expect_same(run_swiglu(table(), gate, up, columns), run_swiglu(ref(), gate, up, columns));
    }
  }
}

TEST_P(RowsOnEachIsa, SwigluEqualsRefOverTheRangeOfExp) {
  std::vector<float> gate;
  for (float x = -120.0F; x < 120.0F; x += 0.0037F) {
    gate.push_back(x);
  }
  // Both sides of every limit of exp.
  for (const float limit : {88.72283F, 87.33654F, 0.34657F, 0.0F}) {
    for (const float sign : {-1.0F, 1.0F}) {
      gate.push_back(std::nextafter(sign * limit, -1e9F));
      gate.push_back(std::nextafter(sign * limit, 1e9F));
    }
  }
  const std::vector<float> up(gate.size(), 1.0F);
  const auto columns = static_cast<std::uint32_t>(gate.size());
  expect_same(run_swiglu(table(), gate, up, columns), run_swiglu(ref(), gate, up, columns));
}

INSTANTIATE_TEST_SUITE_P(Isa, RowsOnEachIsa, ::testing::ValuesIn(row_tables()), matmul_table_name);

TEST(RmsNorm, IsCloseToDouble) {
  const FloatModeScope mode;
  constexpr std::uint32_t kHidden = 200;
  const NormResult result = run_norm(kernel_table(Isa::kRef), 3, kHidden, 7, Kind::kOrdinary);
  const std::vector<float> gain = floats(kHidden, 9, Kind::kOrdinary);
  for (std::size_t row = 0; row < 3; ++row) {
    double squares = 0.0;
    for (std::size_t i = 0; i < kHidden; ++i) {
      squares += double{result.x[row * kHidden + i]} * double{result.x[row * kHidden + i]};
    }
    const double scale = 1.0 / std::sqrt(squares / kHidden + 1e-6);
    for (std::size_t i = 0; i < kHidden; ++i) {
      const double expected = double{result.x[row * kHidden + i]} * scale * double{gain[i]};
      EXPECT_NEAR(double{tensor::to_float(result.out[row * kHidden + i])},
                  expected,
                  std::abs(expected) * (0x1p-8 + 40 * 0x1p-24) + 1e-30);
    }
  }
}

TEST(RmsNorm, AddsTheDeltaToTheResidual) {
  const FloatModeScope mode;
  const NormResult result = run_norm(kernel_table(Isa::kRef), 2, 32, 11, Kind::kOrdinary);
  const std::vector<float> x = floats(64, 11, Kind::kOrdinary);
  const std::vector<float> delta = floats(64, 12, Kind::kOrdinary);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(result.x[i], x[i] + delta[i]);
  }
}

TEST(RmsNorm, AddsTheBiasToTheDeltaFirst) {
  const FloatModeScope mode;
  const NormResult result = run_norm(kernel_table(Isa::kRef), 2, 32, 11, Kind::kOrdinary, true);
  const std::vector<float> x = floats(64, 11, Kind::kOrdinary);
  const std::vector<float> delta = floats(64, 12, Kind::kOrdinary);
  const std::vector<float> bias = floats(32, 14, Kind::kOrdinary);
  std::size_t order_shows = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(result.x[i], x[i] + (delta[i] + bias[i % 32]));
    order_shows += result.x[i] != (x[i] + delta[i]) + bias[i % 32] ? 1U : 0U;
  }
  EXPECT_GT(order_shows, 0U);
}

TEST(Swiglu, IsCloseToDouble) {
  const FloatModeScope mode;
  const std::vector<float> gate = floats(500, 1, Kind::kOrdinary);
  const std::vector<float> up = floats(500, 2, Kind::kOrdinary);
  const std::vector<Bf16> out = run_swiglu(kernel_table(Isa::kRef), gate, up, 500).out;
  for (std::size_t i = 0; i < 500; ++i) {
    const double expected = double{gate[i]} / (1.0 + std::exp(-double{gate[i]})) * double{up[i]};
    EXPECT_NEAR(double{tensor::to_float(out[i])}, expected, std::abs(expected) * (0x1p-8 + 1e-6));
  }
}

TEST(HeadNormRope, TurnsPairsByTheAngle) {
  const FloatModeScope mode;
  std::vector<float> x(16);
  x[3] = 2.0F;
  const std::vector<float> cos(8, 0.5F);
  const std::vector<float> sin(8, 0.25F);
  std::vector<Bf16> out(16);
  kernel_table(Isa::kRef).head_norm_rope(
      {x.data(), 16, nullptr, 0.0F, cos.data(), sin.data(), 8, out.data(), 16, 1, 1, 16}, 0);
  EXPECT_EQ(tensor::to_float(out[3]), 1.0F);
  EXPECT_EQ(tensor::to_float(out[3 + 8]), 0.5F);
  EXPECT_EQ(tensor::to_float(out[2]), 0.0F);
}

TEST(Embedding, ReadsRowsOfThePackedTable) {
  constexpr std::uint32_t kVocab = 37;
  constexpr std::uint32_t kHidden = 40;
  const std::vector<Bf16> table = bf16s(kVocab * kHidden, 5, Kind::kOrdinary);
  std::vector<Bf16> packed(packed_elements(kVocab, kHidden));
  pack_weight({table.data(), kVocab, kHidden, kHidden}, WeightFormat::kBf16, bytes_of(packed));
  const WeightView view = bf16_weight(packed, kHidden, kVocab);
  std::vector<TokenId> tokens;
  for (TokenId token = kVocab - 1; token >= 0; --token) {
    tokens.push_back(token);
  }
  std::vector<float> x(tokens.size() * kHidden);
  for (std::uint32_t tile = 0; tile < row_tiles(kVocab); ++tile) {
    embedding({view, tokens.data(), kVocab, x.data(), kHidden}, tile);
  }
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    for (std::size_t i = 0; i < kHidden; ++i) {
      ASSERT_EQ(x[row * kHidden + i],
                tensor::to_float(
                    tensor::canonical(table[static_cast<std::size_t>(tokens[row]) * kHidden + i])));
    }
  }
}

}  // namespace
}  // namespace phalanx::kernels
