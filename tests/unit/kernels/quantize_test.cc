// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/quantize.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "integer_inputs.h"

namespace phalanx::kernels {
namespace {

class QuantizeOnEachIsa : public EachIsa {};

TEST_P(QuantizeOnEachIsa, EqualsRef) {
  for (const Kind kind : {Kind::kOrdinary, Kind::kExtreme, Kind::kLawless}) {
    for (const ScaleSpan span : kScaleSpans) {
      for (std::uint32_t k = 1; k <= 140; k += k < 70 ? 1 : 7) {
        const std::vector<QuantizeLeaf> leaves = {{0, k}, {k, 33}, {3, 1}};
        const std::size_t stride = code_stride(leaves.data(), 3);
        const std::vector<float> x = floats(11 * (k + 33), k, kind);
        Quantized actual(11, stride, span);
        Quantized expected(11, stride, span);
        run_quantize(table(), {x.data(), k + 33, 11, leaves.data(), 3, actual.view});
        run_quantize(ref(), {x.data(), k + 33, 11, leaves.data(), 3, expected.view});
        ASSERT_EQ(std::memcmp(actual.view.codes, expected.view.codes, 11 * stride), 0);
        ASSERT_EQ(actual.sums, expected.sums);
        expect_same_bits(actual.scales, expected.scales);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, QuantizeOnEachIsa, ::testing::ValuesIn(vector_isas()), isa_test_name);

TEST(Quantize, CodesWhatTheDocumentSays) {
  const FloatModeScope mode;
  for (const ScaleSpan span : kScaleSpans) {
    const std::vector<float> x = floats(5 * 200, 4, Kind::kOrdinary);
    const std::vector<QuantizeLeaf> leaves = {{0, 70}, {70, 130}};
    Quantized rows(5, code_stride(leaves.data(), 2), span);
    ASSERT_EQ(rows.stride, 256U);
    run_quantize(kernel_table(Isa::kRef), {x.data(), 200, 5, leaves.data(), 2, rows.view});
    for (std::size_t row = 0; row < 5; ++row) {
      for (std::size_t code = 0; code < 256; ++code) {
        const std::size_t leaf = code < 96 ? 0 : 1;
        const std::size_t i = code - leaf * 96;
        const float scale = rows.scales[(row * 256 + code) / 32];
        const bool exists = i < leaves[leaf].k;
        const float value = exists ? x[row * 200 + leaves[leaf].first_k + i] : 0.0F;
        EXPECT_LE(std::abs(value - static_cast<float>(rows.row(row)[code]) * scale),
                  0.5001F * scale);
        EXPECT_LE(std::abs(rows.row(row)[code]), exists ? 127 : 0);
      }
    }
  }
}

TEST(Quantize, SumsItsCodes) {
  const std::vector<float> x = floats(3 * 100, 4, Kind::kOrdinary);
  const std::vector<QuantizeLeaf> leaves = {{0, 70}, {70, 30}};
  for (const Isa isa : available_isas()) {
    Quantized blocks(3, 128, ScaleSpan::kBlock);
    run_quantize(kernel_table(isa), {x.data(), 100, 3, leaves.data(), 2, blocks.view});
    Quantized whole(3, 128, ScaleSpan::kLeaf);
    run_quantize(kernel_table(isa), {x.data(), 100, 3, leaves.data(), 2, whole.view});
    for (std::size_t block = 0; block < blocks.sums.size(); ++block) {
      const std::int8_t* codes = blocks.view.codes + block * 32;
      EXPECT_EQ(blocks.sums[block], std::accumulate(codes, codes + 32, 0));
      const std::size_t begin = block % 4 < 3 ? block / 4 * 4 : block;
      const std::int8_t* of_leaf = whole.view.codes + begin * 32;
      const std::int8_t* end = whole.view.codes + (block + 1) * 32;
      EXPECT_EQ(whole.sums[block], std::accumulate(of_leaf, end, 0));
    }
  }
}

TEST(Quantize, RoundsTiesToEvenAndReachesItsEnds) {
  const FloatModeScope mode;
  std::vector<float> x(32);
  x[0] = -127.0F;
  x[1] = 2.5F;
  x[2] = 3.5F;
  x[3] = -0.5F;
  x[4] = 127.0F;
  const QuantizeLeaf leaf{0, 32};
  for (const Isa isa : available_isas()) {
    Quantized rows(1, 64, ScaleSpan::kLeaf);
    run_quantize(kernel_table(isa), {x.data(), 32, 1, &leaf, 1, rows.view});
    EXPECT_EQ(rows.scales[0], 1.0F);
    EXPECT_EQ(rows.row(0)[0], -127);
    EXPECT_EQ(rows.row(0)[1], 2);
    EXPECT_EQ(rows.row(0)[2], 4);
    EXPECT_EQ(rows.row(0)[3], 0);
    EXPECT_EQ(rows.row(0)[4], 127);
  }
}

TEST(Quantize, GivesNanForWhatIsNotFiniteAndZeroForWhatIsTiny) {
  const FloatModeScope mode;
  std::vector<float> x(96, 1.0F);
  x[3] = -std::numeric_limits<float>::infinity();
  std::fill(x.begin() + 32, x.begin() + 64, 0x1.fffffep-101F);
  const QuantizeLeaf leaf{0, 96};
  for (const Isa isa : available_isas()) {
    Quantized rows(1, 128, ScaleSpan::kBlock);
    run_quantize(kernel_table(isa), {x.data(), 96, 1, &leaf, 1, rows.view});
    EXPECT_EQ(std::bit_cast<std::uint32_t>(rows.scales[0]), 0x7FC00000U);
    EXPECT_EQ(rows.sums[0], 0);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(rows.scales[1]), 0U);
    EXPECT_EQ(rows.sums[1], 0);
    EXPECT_EQ(rows.sums[2], 32 * 127);
    Quantized whole(1, 128, ScaleSpan::kLeaf);
    run_quantize(kernel_table(isa), {x.data(), 96, 1, &leaf, 1, whole.view});
    EXPECT_TRUE(std::isnan(whole.scales[2]));
    EXPECT_EQ(whole.sums[2], 0);
  }
}

}  // namespace
}  // namespace phalanx::kernels
