// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "grouped_leaves.h"
#include "integer_inputs.h"
#include "matmul_tables.h"
#include "ref/int_matmul.h"

namespace phalanx::kernels {
namespace {

// A product of integers with its memory: one packed weight for each leaf.
struct IntegerProduct {
  WeightFormat format;
  std::size_t rows;
  std::size_t columns;
  std::vector<PackedBytes> packed;
  std::vector<MatmulLeaf> leaves;
  std::vector<QuantizeLeaf> runs;
  std::vector<float> x;  // [rows, k]
  std::size_t k = 0;
  std::vector<float> bias;
  ReadAhead* ahead = nullptr;

  IntegerProduct(WeightFormat of,
                 std::size_t row_count,
                 std::size_t column_count,
                 const std::vector<std::size_t>& leaf_k,
                 std::uint64_t seed,
                 Kind kind)
      : format(of), rows(row_count), columns(column_count) {
    std::size_t first_code = 0;
    for (const std::size_t of_leaf : leaf_k) {
      // Weights are never infinite.
      const Kind of_weights = kind == Kind::kLawless ? Kind::kExtreme : kind;
      packed.emplace_back(weight_bytes(format, of_leaf, columns));
      pack_test_weight(format, columns, of_leaf, seed + 100 + k, of_weights, packed.back().bytes());
      leaves.push_back({{format,
                         static_cast<std::uint32_t>(of_leaf),
                         static_cast<std::uint32_t>(columns),
                         packed.back().data()},
                        static_cast<std::uint32_t>(first_code),
                        0,
                        true});
      runs.push_back({static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(of_leaf)});
      k += of_leaf;
      first_code += padded_k(of_leaf);
    }
    x = floats(rows * k, seed, kind);
  }

  [[nodiscard]] std::size_t stride() const {
    return code_stride(runs.data(), static_cast<std::uint32_t>(runs.size()));
  }

  void quantize(const KernelTable& table, Quantized* to) const {
    run_quantize(table,
                 {x.data(),
                  k,
                  static_cast<std::uint32_t>(rows),
                  runs.data(),
                  static_cast<std::uint32_t>(runs.size()),
                  to->view});
  }

  // All tiles over rows that are already quantised.
  [[nodiscard]] std::vector<float> run(const KernelTable& table,
                                       const Quantized& of_rows,
                                       std::size_t nodes) const {
    std::vector<float> out(nodes * rows * columns, -7.0F);
    MatmulArgs args;
    args.rows = static_cast<std::uint32_t>(rows);
    args.leaves = leaves.data();
    args.leaf_count = static_cast<std::uint32_t>(leaves.size());
    args.columns = static_cast<std::uint32_t>(columns);
    args.out = out.data();
    args.out_stride = columns;
    args.node_stride = rows * columns;
    args.bias = bias.empty() ? nullptr : bias.data();
    args.quantized = of_rows.view;
    args.ahead = ahead;
    EXPECT_TRUE(check_matmul(args).has_value());
    for (std::uint32_t tile = 0; tile < matmul_tiles(args); ++tile) {
      table.matmul(args, tile);
    }
    return out;
  }

  [[nodiscard]] std::vector<float> run(const KernelTable& table,
                                       ScaleSpan span,
                                       std::size_t nodes = 1) const {
    Quantized of_rows(rows, stride(), span);
    quantize(table, &of_rows);
    return run(table, of_rows, nodes);
  }
};

class IntegerMatmulOnEachIsa : public EachMatmulTable {
 protected:
  void expect_ref(const IntegerProduct& product, std::size_t nodes = 1) const {
    for (const ScaleSpan span : kScaleSpans) {
      SCOPED_TRACE(std::string(weight_format_name(product.format)) + ", " +
                   (span == ScaleSpan::kLeaf ? "leaf" : "block"));
      expect_same_bits(product.run(table(), span, nodes), product.run(ref(), span, nodes));
    }
  }
};

TEST_P(IntegerMatmulOnEachIsa, EqualsRefForEveryRowCount) {
  for (const WeightFormat format : kIntegerFormats) {
    for (std::size_t rows = 1; rows <= 70; rows += rows < 19 ? 1 : 17) {
      expect_ref(IntegerProduct(format, rows, 40, {96}, rows, Kind::kOrdinary));
    }
  }
}

TEST_P(IntegerMatmulOnEachIsa, EqualsRefForEveryColumnCount) {
  for (const WeightFormat format : kIntegerFormats) {
    for (std::size_t columns = 1; columns <= 70; ++columns) {
      expect_ref(IntegerProduct(format, 1 + columns % 3, columns, {65}, columns, Kind::kOrdinary));
    }
  }
}

// Of so few rows tables may give a tile columns of both halves.
TEST_P(IntegerMatmulOnEachIsa, EqualsRefForFewRowsOfWholeTiles) {
  for (const WeightFormat format : kIntegerFormats) {
    for (const std::size_t columns : {64U, 128U, 192U}) {
      for (std::size_t rows = 1; rows <= 2; ++rows) {
        IntegerProduct product(format, rows, columns, {100}, rows + columns, Kind::kOrdinary);
        product.bias = floats(columns, rows, Kind::kOrdinary);
        expect_ref(product);
        const std::vector<float> expected = product.run(ref(), ScaleSpan::kLeaf);
        const GroupedLeaves grouped(product.leaves);
        product.leaves = grouped.leaves();
        expect_same_bits(product.run(table(), ScaleSpan::kLeaf), expected);
      }
    }
    // More than is multiplied at once.
    expect_ref(IntegerProduct(format, 1, 192, {4500}, 7, Kind::kOrdinary));
  }
}

TEST_P(IntegerMatmulOnEachIsa, EqualsRefForOddK) {
  for (const WeightFormat format : kIntegerFormats) {
    for (std::size_t k = 2; k <= 300; k += k < 70 ? 1 : 13) {
      expect_ref(IntegerProduct(format, 2, 17, {k}, k, Kind::kOrdinary));
    }
    for (const std::size_t k : {1000U, 1024U, 1056U, 2100U, 8193U}) {
      expect_ref(IntegerProduct(format, 1, 20, {k}, k, Kind::kOrdinary));
      expect_ref(IntegerProduct(format, 9, 70, {k}, k, Kind::kOrdinary));
    }
  }
}

TEST_P(IntegerMatmulOnEachIsa, EqualsRefOnExtremeNumbers) {
  for (const WeightFormat format : kIntegerFormats) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      const Kind kind = seed % 3 == 0 ? Kind::kLawless : Kind::kExtreme;
      expect_ref(IntegerProduct(format, 1 + seed % 9, 31, {64 + seed}, seed, kind));
    }
  }
}

TEST_P(IntegerMatmulOnEachIsa, EqualsRefOverLeaves) {
  for (const WeightFormat format : kIntegerFormats) {
    for (std::uint32_t total = 1; total <= 9; ++total) {
      for (std::uint32_t first = 0; first < total; first += 2) {
        std::vector<std::size_t> k;
        for (std::uint32_t leaf = first; leaf < total; ++leaf) {
          k.push_back(16 + 24 * leaf);
        }
        IntegerProduct product(format, 5, 50, k, total * 16 + first, Kind::kOrdinary);
        const std::uint32_t nodes = plan_leaves(total, first, product.leaves);
        if (nodes == 1) {
          product.bias = floats(50, total, Kind::kOrdinary);
        }
        expect_ref(product, nodes);
      }
    }
  }
}

TEST_P(IntegerMatmulOnEachIsa, EqualsRefOverLeavesThatLieTogether) {
  for (const WeightFormat format : kIntegerFormats) {
    for (const std::size_t rows : {1U, 3U, 16U, 65U}) {
      const std::size_t columns = rows == 3 ? 272 : 150;
      IntegerProduct product(format, rows, columns, {32, 300, 7}, rows, Kind::kOrdinary);
      ASSERT_EQ(plan_leaves(3, 0, product.leaves), 1U);
      const std::vector<float> expected = product.run(ref(), ScaleSpan::kLeaf);
      const GroupedLeaves grouped(product.leaves);
      product.leaves = grouped.leaves();
      expect_same_bits(product.run(table(), ScaleSpan::kLeaf), expected);
      expect_ref(product);
    }
  }
}

// Codes and scales that no quantisation makes: every byte is legal. Seeds 0 and 1 are the ends.
void fill_weight(IntegerProduct* product, std::uint64_t seed, Inputs* inputs) {
  constexpr std::array<std::uint16_t, 8> kScales = {
      0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x0000, 0x8000};
  const WeightView& weight = product->leaves[0].weight;
  const auto bytes = product->packed[0].bytes();
  const std::size_t strip = weight_bytes(weight.format, weight.rows, 16);
  const std::size_t of_scales = strip_scale_bytes(weight.format, weight.rows);
  const bool is_wide = traits_of(weight.format).scale_bytes == 4;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % strip >= of_scales) {
      bytes[i] = static_cast<std::byte>(seed < 2 ? seed * 255 : inputs->below(256));
    } else if (!is_wide && i % 2 == 0) {
      std::memcpy(&bytes[i], &kScales[inputs->below(8)], 2);
    } else if (is_wide && i % 4 == 0) {
      const float scale = inputs->extreme();
      std::memcpy(&bytes[i], &scale, sizeof(scale));
    }
  }
}

// Each row is one leaf.
void fill_rows(Quantized* rows, std::uint64_t seed, Inputs* inputs) {
  for (std::size_t block = 0; block < rows->scales.size(); ++block) {
    rows->scales[block] = inputs->extreme();
    const bool goes_on =
        rows->view.span == ScaleSpan::kLeaf && block * 32 % rows->view.code_stride != 0;
    rows->sums[block] = goes_on ? rows->sums[block - 1] : 0;
    for (std::size_t i = block * 32; i < block * 32 + 32; ++i) {
      const int code = seed < 2 ? 127 : static_cast<int>(inputs->below(255)) - 127;
      rows->view.codes[i] = static_cast<std::int8_t>(code);
      rows->sums[block] += code;
    }
  }
}

TEST_P(IntegerMatmulOnEachIsa, EqualsRefOnAnyBytes) {
  for (const WeightFormat format : kIntegerFormats) {
    for (const ScaleSpan span : kScaleSpans) {
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        IntegerProduct product(format, 9, 33, {192}, seed, Kind::kOrdinary);
        Inputs inputs(seed);
        fill_weight(&product, seed, &inputs);
        Quantized rows(product.rows, product.stride(), span);
        fill_rows(&rows, seed, &inputs);
        expect_same_bits(product.run(table(), rows, 1), product.run(ref(), rows, 1));
      }
    }
  }
}

TEST_P(IntegerMatmulOnEachIsa, SumsTheLongestLeafExactly) {
  IntegerProduct product(WeightFormat::kInt8, 1, 1, {kMaxIntegerK}, 1, Kind::kOrdinary);
  const auto bytes = product.packed[0].bytes();
  for (const int stored : {0, 255}) {
    std::fill(bytes.begin() + 64, bytes.end(), static_cast<std::byte>(stored));
    std::fill(product.x.begin(), product.x.end(), 1.0F);
    const float sum = product.run(table(), ScaleSpan::kLeaf)[0];
    const auto exact = static_cast<std::int64_t>(kMaxIntegerK) * 127 * (stored - 128);
    EXPECT_EQ(sum,
              static_cast<float>(exact) * (1.0F / 127.0F) *
                  scale_of(product.format, bytes.data(), kMaxIntegerK, 0, 0));
  }
}

TEST_P(IntegerMatmulOnEachIsa, GivesARowTheSameBitsInAnyBatch) {
  for (const WeightFormat format : kIntegerFormats) {
    for (const ScaleSpan span : kScaleSpans) {
      const IntegerProduct batch(format, 70, 48, {160, 40}, 5, Kind::kOrdinary);
      const std::vector<float> together = batch.run(table(), span, 2);
      for (std::size_t row = 0; row < 70; ++row) {
        IntegerProduct alone = batch;
        for (std::size_t leaf = 0; leaf < 2; ++leaf) {
          alone.leaves[leaf].weight.data = alone.packed[leaf].data();
        }
        alone.rows = 1;
        alone.x.assign(batch.x.begin() + static_cast<std::ptrdiff_t>(row * batch.k),
                       batch.x.begin() + static_cast<std::ptrdiff_t>((row + 1) * batch.k));
        const std::vector<float> single = alone.run(table(), span, 2);
        for (std::size_t node = 0; node < 2; ++node) {
          expect_same_bits(std::span(single).subspan(node * 48, 48),
                           std::span(together).subspan((node * 70 + row) * 48, 48));
        }
      }
    }
  }
}

// Blocks of rows, pairs of tiles and of strips, and what is left of K, with leaves and a bias.
TEST_P(IntegerMatmulOnEachIsa, EqualsRefAcrossTilesOfRows) {
  for (const WeightFormat format : kIntegerFormats) {
    for (const std::size_t rows : {16U, 31U, 33U, 64U, 97U}) {
      const std::size_t columns = rows % 2 == 0 ? 97 : 48;
      IntegerProduct product(format, rows, columns, {32, 50, 200, 64, 1}, rows, Kind::kOrdinary);
      ASSERT_EQ(plan_leaves(5, 0, product.leaves), 1U);
      product.bias = floats(columns, rows, Kind::kOrdinary);
      expect_ref(product);
    }
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const Kind kind = seed % 2 == 0 ? Kind::kLawless : Kind::kExtreme;
      expect_ref(IntegerProduct(format, 29 + 11 * seed, 40, {61 + seed, 600}, seed, kind), 2);
    }
  }
}

// Runs of K that stay in the cache, what is left of them, and blocks of rows that meet them.
TEST_P(IntegerMatmulOnEachIsa, EqualsRefAcrossPanels) {
  for (const WeightFormat format : kIntegerFormats) {
    for (const std::size_t k : {1023U, 1025U, 2080U}) {
      for (const std::size_t rows : {2U, 8U, 12U, 65U}) {
        const std::size_t columns = rows == 65 ? 40 : 150;
        expect_ref(IntegerProduct(format, rows, columns, {k}, rows + k, Kind::kOrdinary));
      }
    }
  }
}

// Tables of tile registers have ways of their own.
TEST_P(IntegerMatmulOnEachIsa, FetchesWhatIsListedBesideAFewRowsOfWeights) {
  const bool has_tiles = GetParam().name.starts_with("amx");
  const std::vector<std::byte> listed(100 * 64);
  const auto is_taken_by = [&](WeightFormat format, std::size_t rows) {
    const auto ahead = std::make_unique<ReadAhead>();
    ahead->begin(this);
    ahead->add(listed.data(), listed.size());
    IntegerProduct product(format, rows, 160, {96, 256}, 7, Kind::kOrdinary);
    plan_leaves(2, 0, product.leaves);
    product.ahead = ahead.get();
    expect_ref(product);
    return ahead->take(1, 1000).count == 0;
  };
  for (const WeightFormat format : kIntegerFormats) {
    EXPECT_TRUE(is_taken_by(format, 16) || has_tiles) << weight_format_name(format);
  }
  EXPECT_FALSE(is_taken_by(WeightFormat::kInt8, 1));
  EXPECT_FALSE(is_taken_by(WeightFormat::kInt8, kMatmulTileRows + 1));
}

// The runs of few rows are longer.
TEST_P(IntegerMatmulOnEachIsa, EqualsRefAcrossPanelsOfFewRows) {
  for (const WeightFormat format : kIntegerFormats) {
    for (const std::size_t k : {2049U, 4097U, 8193U}) {
      for (std::size_t rows = 1; rows <= 6; ++rows) {
        expect_ref(IntegerProduct(format, rows, 70, {k, 40}, rows + k, Kind::kOrdinary), 2);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa,
                         IntegerMatmulOnEachIsa,
                         ::testing::ValuesIn(with_amx(vector_tables())),
                         matmul_table_name);

TEST(IntegerMatmul, IsWithinTheBoundOfItsRoundings) {
  const FloatModeScope mode;
  for (const WeightFormat format : kIntegerFormats) {
    for (const ScaleSpan span : kScaleSpans) {
      const IntegerProduct product(format, 3, 24, {320}, 9, Kind::kOrdinary);
      Quantized rows(3, product.stride(), span);
      product.quantize(kernel_table(Isa::kRef), &rows);
      const std::vector<float> out = product.run(kernel_table(Isa::kRef), rows, 1);
      for (std::size_t row = 0; row < 3; ++row) {
        for (std::size_t column = 0; column < 24; ++column) {
          double exact = 0.0;
          double magnitude = 0.0;
          for (std::size_t k = 0; k < 320; ++k) {
            const std::byte* packed = product.packed[0].data();
            const double weight = double{scale_of(format, packed, 320, k, column)} *
                                  code_of(format, packed, 320, k, column);
            const double minimum{minimum_of(format, packed, 320, k, column)};
            const double activation =
                double{rows.scales[(row * rows.stride + k) / 32]} * rows.row(row)[k];
            exact += (weight - minimum) * activation;
            magnitude += (std::abs(weight) + std::abs(minimum)) * std::abs(activation);
          }
          // The scale of a group, an addition for each scale and minimum of a group of 16 or 32,
          // and two scales at the end.
          const std::uint32_t group = std::max(traits_of(format).group, 16U);
          const bool is_double = traits_of(format).has_minima;
          const double roundings = 1 + 320.0 / group * (is_double ? 2 : 1) + 2;
          EXPECT_NEAR(double{out[row * 24 + column]}, exact, roundings * 0x1p-24 * magnitude);
        }
      }
    }
  }
}

TEST(IntegerMatmul, IsNanWhereARowIsNotFinite) {
  const FloatModeScope mode;
  for (const WeightFormat format : kIntegerFormats) {
    for (const ScaleSpan span : kScaleSpans) {
      IntegerProduct product(format, 3, 20, {96}, 2, Kind::kOrdinary);
      product.x[96 + 40] = std::numeric_limits<float>::infinity();
      const std::vector<float> out = product.run(kernel_table(Isa::kRef), span);
      for (std::size_t i = 0; i < out.size(); ++i) {
        EXPECT_EQ(std::isnan(out[i]), i / 20 == 1);
      }
    }
  }
}

TEST(IntegerMatmul, FusesAsTheLibraryDoesOnNormalNumbers) {
  Inputs inputs(3);
  for (int i = 0; i < 200000; ++i) {
    const float a = inputs.uniform();
    const float b = std::ldexp(inputs.uniform(), static_cast<int>(inputs.below(60)) - 30);
    const float c = i % 4 == 0 ? -a * b : inputs.uniform();
    ASSERT_EQ(std::bit_cast<std::uint32_t>(ref::fused(a, b, c)),
              std::bit_cast<std::uint32_t>(std::fma(a, b, c)));
  }
}

// The product is 2^-24 − 2^-70. In binary64 a sum with it would be rounded to a tie, and then to
// the wrong side.
TEST(IntegerMatmul, FusesBesideATie) {
  constexpr float kAbove = 0x1.000002p0F;
  constexpr float kBelow = 0x1.fffffcp-25F;
  EXPECT_EQ(ref::fused(kAbove, kBelow, kAbove), kAbove);
  EXPECT_EQ(ref::fused(-kAbove, kBelow, kAbove), kAbove);
  EXPECT_EQ(ref::fused(kAbove, -kBelow, -kAbove), -kAbove);
  EXPECT_EQ(ref::fused(kAbove, kBelow, -kAbove), -kAbove);
}

TEST(CheckMatmul, RefusesIntegersThatDoNotFit) {
  std::array<MatmulLeaf, 2> leaves;
  leaves[0].weight = {.format = WeightFormat::kInt8, .rows = 40, .columns = 48};
  leaves[1].weight = {.format = WeightFormat::kInt8, .rows = 64, .columns = 48};
  leaves[1].first_k = 64;
  MatmulArgs args;
  args.leaves = leaves.data();
  args.leaf_count = 2;
  args.columns = 48;
  args.quantized.code_stride = 128;
  EXPECT_TRUE(check_matmul(args).has_value());
  const auto refused = [&](const auto& change) {
    const std::array<MatmulLeaf, 2> leaves_before = leaves;
    const MatmulArgs args_before = args;
    change();
    const auto checked = check_matmul(args);
    leaves = leaves_before;
    args = args_before;
    return checked.has_value() ? std::string() : std::string(checked.error().message());
  };
  const auto expect_refused = [&](const auto& change, const std::string& part) {
    EXPECT_NE(refused(change).find(part), std::string::npos) << refused(change);
  };
  expect_refused([&] { leaves[1].weight.format = WeightFormat::kInt4; },
                 "leaf 1: expected int8 as in leaf 0, found int4");
  expect_refused([&] { leaves[1].first_k = 40; }, "leaf 1: expected inputs from a multiple of 32");
  expect_refused([&] { leaves[1].first_k = 96; }, "among 128 codes, found 64 from 96");
  expect_refused([&] { leaves[0].weight.rows = 131073; }, "at most 131072 inputs");
  expect_refused([&] { leaves[1].weight.group_stride = 64; }, "64 columns to take at least");
  expect_refused([&] { leaves[1].weight.group_stride = 65537; }, "a multiple of 64, found 65537");
  expect_refused([&] { args.activation_stride = 128; }, "take quantised activations");
  expect_refused([&] { args.quantized.code_stride = 160; }, "multiple of 64, found 160");
  expect_refused([&] { args.quantized.span = ScaleSpan{7}; }, "found span 7");
  expect_refused([&] { args.row_run = 1; }, "below their number, 1, found 1");
  expect_refused([&] { args.row_runs = 0; }, "below their number, 0, found 0");
  expect_refused(
      [&] {
        leaves[0].weight.format = leaves[1].weight.format = WeightFormat::kBf16;
        args.activation_stride = 128;
      },
      "bf16 weights take bf16 activations");
}

}  // namespace
}  // namespace phalanx::kernels
