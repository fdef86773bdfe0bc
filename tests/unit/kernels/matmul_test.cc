// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/matmul.h"

#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "grouped_leaves.h"
#include "matmul_tables.h"

namespace phalanx::kernels {
namespace {

// A product with its memory: one packed weight per leaf.
struct Product {
  std::size_t rows;
  std::size_t columns;
  std::vector<std::size_t> leaf_k;
  std::vector<Bf16> activations;  // [rows, stride]
  std::size_t stride;
  std::vector<std::vector<Bf16>> weights;  // per leaf [columns, leaf_k], row-major
  std::vector<std::vector<Bf16>> packed;
  std::vector<MatmulLeaf> leaves;
  std::vector<float> bias;  // [columns], or empty

  Product(std::size_t row_count,
          std::size_t column_count,
          std::vector<std::size_t> k_of_leaves,
          std::uint64_t seed,
          Kind kind)
      : rows(row_count), columns(column_count), leaf_k(std::move(k_of_leaves)) {
    const std::size_t k = std::accumulate(leaf_k.begin(), leaf_k.end(), std::size_t{0});
    stride = k + 3;
    activations = bf16s(rows * stride, seed, kind);
    std::size_t first = 0;
    for (std::size_t i = 0; i < leaf_k.size(); ++i) {
      weights.push_back(bf16s(columns * leaf_k[i], seed + 100 + i, kind));
      packed.emplace_back(packed_elements(columns, leaf_k[i]));
      pack_weight({weights[i].data(), columns, leaf_k[i], leaf_k[i]},
                  WeightFormat::kBf16,
                  bytes_of(packed[i]));
      leaves.push_back(
          {bf16_weight(packed[i], leaf_k[i], columns), static_cast<std::uint32_t>(first), 0, true});
      first += leaf_k[i];
    }
  }

  // All tiles; `nodes` rows × columns each.
  [[nodiscard]] std::vector<float> run(const KernelTable& table, std::size_t nodes) const {
    std::vector<float> out(nodes * rows * columns, -7.0F);
    MatmulArgs args{activations.data(),
                    stride,
                    static_cast<std::uint32_t>(rows),
                    leaves.data(),
                    static_cast<std::uint32_t>(leaves.size()),
                    static_cast<std::uint32_t>(columns),
                    out.data(),
                    columns,
                    rows * columns,
                    bias.empty() ? nullptr : bias.data()};
    for (std::uint32_t tile = 0; tile < matmul_tiles(args); ++tile) {
      table.matmul(args, tile);
    }
    return out;
  }
};

class MatmulOnEachIsa : public EachMatmulTable {};

TEST_P(MatmulOnEachIsa, EqualsRefForEveryRowCount) {
  for (std::size_t rows = 1; rows <= 19; ++rows) {
    const Product product(rows, 40, {96}, rows, Kind::kOrdinary);
    expect_same_bits(product.run(table(), 1), product.run(ref(), 1));
  }
}

TEST_P(MatmulOnEachIsa, EqualsRefOnOddSizes) {
  const std::size_t shapes[][3] = {
      {1, 1, 1}, {2, 15, 2}, {3, 17, 31}, {5, 33, 33}, {9, 64, 100}, {67, 70, 65}, {1, 130, 5000}};
  for (const auto& [rows, columns, k] : shapes) {
    const Product product(rows, columns, {k}, rows + columns, Kind::kOrdinary);
    expect_same_bits(product.run(table(), 1), product.run(ref(), 1));
  }
}

// Of so few rows tables may give a tile columns of both halves.
TEST_P(MatmulOnEachIsa, EqualsRefForFewRowsOfWholeTiles) {
  for (const std::size_t columns : {64U, 128U, 192U, 320U}) {
    for (const std::size_t k : {20U, 96U, 1000U, 8500U}) {
      for (std::size_t rows = 1; rows <= 3; ++rows) {
        Product product(rows, columns, {k}, rows + columns + k, Kind::kOrdinary);
        product.bias = floats(columns, rows, Kind::kOrdinary);
        const std::vector<float> expected = product.run(ref(), 1);
        expect_same_bits(product.run(table(), 1), expected);
        const GroupedLeaves grouped(product.leaves);
        product.leaves = grouped.leaves();
        expect_same_bits(product.run(table(), 1), expected);
      }
    }
  }
}

TEST_P(MatmulOnEachIsa, EqualsRefOnExtremeNumbers) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Product product(1 + seed % 9, 31, {64 + seed}, seed, Kind::kExtreme);
    expect_same_bits(product.run(table(), 1), product.run(ref(), 1));
  }
}

TEST_P(MatmulOnEachIsa, EqualsRefOnInfinitiesAndNans) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Product product(3, 20, {96}, seed, Kind::kLawless);
    expect_same_bits(product.run(table(), 1), product.run(ref(), 1));
  }
}

TEST_P(MatmulOnEachIsa, EqualsRefOverLeaves) {
  for (std::uint32_t total = 1; total <= 9; ++total) {
    for (std::uint32_t first = 0; first < total; first += 2) {
      std::vector<std::size_t> k;
      for (std::uint32_t leaf = first; leaf < total; ++leaf) {
        k.push_back(16 + 24 * leaf);
      }
      Product product(5, 50, k, total * 16 + first, Kind::kOrdinary);
      const std::uint32_t nodes = plan_leaves(total, first, product.leaves);
      expect_same_bits(product.run(table(), nodes), product.run(ref(), nodes));
    }
  }
}

TEST_P(MatmulOnEachIsa, EqualsRefOverLeavesThatLieTogether) {
  for (const std::size_t rows : {1U, 3U, 16U, 65U}) {
    for (const std::size_t columns : {48U, 64U, 150U, 272U}) {
      Product product(rows, columns, {32, 300, 7}, rows + columns, Kind::kOrdinary);
      const std::uint32_t nodes = plan_leaves(3, 0, product.leaves);
      const std::vector<float> expected = product.run(ref(), nodes);
      const GroupedLeaves grouped(product.leaves);
      product.leaves = grouped.leaves();
      expect_same_bits(product.run(ref(), nodes), expected);
      expect_same_bits(product.run(table(), nodes), expected);
    }
  }
}

TEST_P(MatmulOnEachIsa, EqualsRefWithABias) {
  for (const Kind kind : {Kind::kOrdinary, Kind::kExtreme, Kind::kLawless}) {
    for (const std::size_t columns : {1U, 15U, 16U, 40U, 130U}) {
      for (std::size_t rows = 1; rows <= 9; ++rows) {
        Product product(rows, columns, {96}, rows + columns, kind);
        product.bias = floats(columns, rows, kind);
        expect_same_bits(product.run(table(), 1), product.run(ref(), 1));
      }
    }
  }
}

TEST_P(MatmulOnEachIsa, GivesARowTheSameBitsInAnyBatch) {
  Product batch(11, 48, {160}, 5, Kind::kOrdinary);
  const std::vector<float> together = batch.run(table(), 1);
  for (std::size_t row = 0; row < 11; ++row) {
    Product alone = batch;
    alone.rows = 1;
    alone.activations.assign(
        batch.activations.begin() + static_cast<std::ptrdiff_t>(row * batch.stride),
        batch.activations.begin() + static_cast<std::ptrdiff_t>((row + 1) * batch.stride));
    for (std::size_t i = 0; i < alone.leaves.size(); ++i) {
      alone.leaves[i].weight = bf16_weight(alone.packed[i], alone.leaf_k[i], alone.columns);
    }
    expect_same_bits(alone.run(table(), 1), std::span(together).subspan(row * 48, 48));
  }
}

// Blocks of rows, pairs of tiles and of strips, and what is left of K, with leaves and a bias.
TEST_P(MatmulOnEachIsa, EqualsRefAcrossTilesOfRows) {
  for (const std::size_t rows : {15U, 16U, 17U, 31U, 33U, 63U, 64U, 97U, 130U}) {
    for (const std::size_t columns : {31U, 48U, 97U}) {
      Product product(rows, columns, {32, 50, 95, 64, 1}, rows + columns, Kind::kOrdinary);
      ASSERT_EQ(plan_leaves(5, 0, product.leaves), 1U);
      product.bias = floats(columns, rows, Kind::kOrdinary);
      expect_same_bits(product.run(table(), 1), product.run(ref(), 1));
    }
  }
  for (const Kind kind : {Kind::kExtreme, Kind::kLawless}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const Product product(29 + 11 * seed, 40, {61 + seed}, seed, kind);
      expect_same_bits(product.run(table(), 1), product.run(ref(), 1));
    }
  }
}

// Runs of K that stay in the cache, what is left of them, and blocks of rows that meet them.
TEST_P(MatmulOnEachIsa, EqualsRefAcrossPanels) {
  for (const std::size_t k : {255U, 256U, 257U, 513U, 1540U}) {
    for (const std::size_t rows : {1U, 6U, 7U, 13U, 65U}) {
      const std::size_t columns = rows == 65 ? 40 : 150;
      const Product product(rows, columns, {k}, rows + k, Kind::kOrdinary);
      expect_same_bits(product.run(table(), 1), product.run(ref(), 1));
    }
  }
}

// The runs of few rows are longer.
TEST_P(MatmulOnEachIsa, EqualsRefAcrossPanelsOfFewRows) {
  for (const std::size_t k : {1345U, 1633U, 2047U, 2049U, 2721U, 4097U, 8191U, 8193U, 16400U}) {
    for (std::size_t rows = 1; rows <= 7; ++rows) {
      const Product product(rows, 70, {k, 40}, rows + k, Kind::kOrdinary);
      expect_same_bits(product.run(table(), 2), product.run(ref(), 2));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa,
                         MatmulOnEachIsa,
                         ::testing::ValuesIn(with_amx(vector_tables())),
                         matmul_table_name);

TEST(Matmul, IsWithinTheBoundOfItsRoundings) {
  const FloatModeScope mode;
  const Product product(4, 24, {320}, 9, Kind::kOrdinary);
  const std::vector<float> out = product.run(kernel_table(Isa::kRef), 1);
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t column = 0; column < 24; ++column) {
      double exact = 0.0;
      double magnitude = 0.0;
      for (std::size_t k = 0; k < 320; ++k) {
        const double term =
            static_cast<double>(tensor::to_float(product.activations[row * product.stride + k])) *
            static_cast<double>(tensor::to_float(product.weights[0][column * 320 + k]));
        exact += term;
        magnitude += std::abs(term);
      }
      // A term passes at most 16 roundings in its chain, one for the pair and one per block.
      const double bound = (16 + 1 + 10) * 0x1p-24 * magnitude;
      EXPECT_NEAR(static_cast<double>(out[row * 24 + column]), exact, bound);
    }
  }
}

TEST(Matmul, AccumulatesAsTheDocumentSays) {
  // Within a chain 1 + 2^-24 rounds to 1 each time; across the chains the small numbers are added
  // first. Any other order gives another sum.
  const FloatModeScope mode;
  Product product(1, 1, {32}, 1, Kind::kOrdinary);
  std::fill(product.weights[0].begin(), product.weights[0].end(), tensor::to_bf16(1.0F));
  pack_weight(
      {product.weights[0].data(), 1, 32, 32}, WeightFormat::kBf16, bytes_of(product.packed[0]));
  for (std::size_t k = 0; k < 32; ++k) {
    product.activations[k] = tensor::to_bf16(k == 0 ? 1.0F : 0x1p-24F);
  }
  const float even = 1.0F;
  const float odd = 16 * 0x1p-24F;
  EXPECT_EQ(product.run(kernel_table(Isa::kRef), 1)[0], even + odd);
}

TEST(Matmul, AddsTheBiasAfterTheWholeProduct) {
  const FloatModeScope mode;
  Product product(3, 40, {64, 40}, 2, Kind::kOrdinary);
  ASSERT_EQ(plan_leaves(2, 0, product.leaves), 1U);
  const std::vector<float> plain = product.run(kernel_table(Isa::kRef), 1);
  product.bias = floats(40, 3, Kind::kOrdinary);
  const std::vector<float> biased = product.run(kernel_table(Isa::kRef), 1);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(biased[i], plain[i] + product.bias[i % 40]);
  }
}

// The value of a node, by the definition of the tree.
std::vector<float> tree_sum(const std::vector<std::vector<float>>& leaves,
                            std::size_t begin,
                            std::size_t end) {
  if (end - begin == 1) {
    return leaves[begin];
  }
  std::size_t power = 1;
  while (power * 2 < end - begin) {
    power *= 2;
  }
  std::vector<float> sum = tree_sum(leaves, begin, begin + power);
  const std::vector<float> right = tree_sum(leaves, begin + power, end);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = sum[i] + right[i];
  }
  return sum;
}

TEST(Matmul, SumsLeavesAsTheTree) {
  const FloatModeScope mode;
  for (std::size_t count = 1; count <= 16; ++count) {
    Product product(2, 16, std::vector<std::size_t>(count, 32), count, Kind::kOrdinary);
    std::vector<std::vector<float>> each;
    for (std::size_t i = 0; i < count; ++i) {
      Product leaf = product;
      leaf.leaves = {product.leaves[i]};
      each.push_back(leaf.run(kernel_table(Isa::kRef), 1));
    }
    ASSERT_EQ(plan_leaves(static_cast<std::uint32_t>(count), 0, product.leaves), 1U);
    expect_same_bits(product.run(kernel_table(Isa::kRef), 1), tree_sum(each, 0, count));
  }
}

TEST(PlanLeaves, CoversARunWithTheLargestSubtrees) {
  // 5 leaves: ((0 1)(2 3)) 4. The run 1 … 4 is the nodes 1, (2 3), 4.
  std::vector<MatmulLeaf> leaves(4);
  EXPECT_EQ(plan_leaves(5, 1, leaves), 3U);
  EXPECT_TRUE(leaves[0].emit);
  EXPECT_EQ(leaves[0].merges, 0U);
  EXPECT_FALSE(leaves[1].emit);
  EXPECT_TRUE(leaves[2].emit);
  EXPECT_EQ(leaves[2].merges, 1U);
  EXPECT_TRUE(leaves[3].emit);
  EXPECT_EQ(leaves[3].merges, 0U);
}

TEST(PlanLeaves, MakesOneNodeOfAWholeTree) {
  for (std::uint32_t total = 1; total <= kMaxLeaves; ++total) {
    std::vector<MatmulLeaf> leaves(total);
    ASSERT_EQ(plan_leaves(total, 0, leaves), 1U);
    std::uint32_t merges = 0;
    for (const MatmulLeaf& leaf : leaves) {
      merges += leaf.merges;
    }
    EXPECT_EQ(merges, total - 1);
  }
}

TEST(CheckMatmul, RefusesWeightsThatDoNotFit) {
  std::array<MatmulLeaf, 2> leaves;
  leaves[0].weight = {.rows = 32, .columns = 48};
  leaves[1].weight = {.rows = 16, .columns = 48};
  leaves[1].first_k = 32;
  MatmulArgs args;
  args.activation_stride = 48;
  args.leaves = leaves.data();
  args.leaf_count = 2;
  args.columns = 48;
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
  EXPECT_NE(refused([&] { args.leaf_count = 0; }).find("found 0"), std::string::npos);
  EXPECT_NE(refused([&] { args.columns = 49; }).find("at least 49 columns, found 48"),
            std::string::npos);
  EXPECT_NE(refused([&] { leaves[1].first_k = 33; }).find("leaf 1"), std::string::npos);
  EXPECT_NE(refused([&] { leaves[1].weight.rows = 0; }).find("0 × 48"), std::string::npos);
  EXPECT_NE(refused([&] {
              leaves[0].weight.format = WeightFormat{22};
            }).find("a format of 1 to 21, found 22"),
            std::string::npos);
}

TEST(PackWeight, PutsEachElementAtItsIndex) {
  const std::vector<Bf16> weight = bf16s(20 * 35, 3, Kind::kOrdinary);
  std::vector<Bf16> packed(packed_elements(20, 35), Bf16{0x1234});
  pack_weight({weight.data(), 20, 35, 35}, WeightFormat::kBf16, bytes_of(packed));
  std::size_t zeros = 0;
  for (std::size_t column = 0; column < 32; ++column) {
    for (std::size_t k = 0; k < 64; ++k) {
      const Bf16 found = packed[packed_index(column, k, 64)];
      if (column < 20 && k < 35) {
        ASSERT_EQ(found, tensor::canonical(weight[column * 35 + k]));
      } else {
        ASSERT_EQ(found.bits, 0);
        ++zeros;
      }
    }
  }
  EXPECT_EQ(zeros, 32U * 64U - 20U * 35U);
}

TEST(PackWeight, PacksRangesOfStripsAsTheWhole) {
  const std::vector<Bf16> weight = bf16s(50 * 40, 4, Kind::kExtreme);
  std::vector<Bf16> whole(packed_elements(50, 40));
  const tensor::MatrixView<const Bf16> from{weight.data(), 50, 40, 40};
  pack_weight(from, WeightFormat::kBf16, bytes_of(whole));
  std::vector<Bf16> parts(whole.size());
  const std::size_t half = weight_bytes(WeightFormat::kBf16, 40, 32);
  const auto bytes = bytes_of(parts);
  EXPECT_TRUE(pack_weight_strips(from, 0, WeightFormat::kBf16, bytes.first(half)).has_value());
  EXPECT_TRUE(pack_weight_strips(from, 32, WeightFormat::kBf16, bytes.subspan(half)).has_value());
  EXPECT_EQ(parts, whole);
}

}  // namespace
}  // namespace phalanx::kernels
