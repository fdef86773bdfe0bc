// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "phalanx/base/check.h"

#include "golden_inputs.h"

namespace phalanx::kernels {

namespace {

using PackedLeaves = std::array<std::vector<std::byte>, 2>;

struct Extent {
  std::uint32_t rows;
  std::uint32_t columns;
};

// Products over two leaves, of the first rows and columns that there are.
struct IntegerShape {
  std::uint32_t rows;
  std::uint32_t columns;
  std::array<QuantizeLeaf, 2> leaves;
  std::array<Extent, 2> products;

  [[nodiscard]] std::uint32_t k() const { return leaves[1].first_k + leaves[1].k; }
};

// Every format: more columns than a tile has; rows of which two are multiplied by codes as they lie.
constexpr IntegerShape kShort = {9, 72, {{{0, 96}, {96, 64}}}, {{{9, 72}, {2, 72}}}};
// Every kind of product: a leaf longer than what is multiplied at once; rows of a tile and, in the
// next, more than a tile register has; columns that take turns where only half of a tile's do.
constexpr IntegerShape kLong = {81, 40, {{{0, 1056}, {1056, 64}}}, {{{81, 24}, {9, 40}}}};

// Formats that are indices into 16 codes have one kind of product for each size of their groups.
bool is_of_its_own_kind(WeightFormat format) {
  return traits_of(format).table == nullptr || format == WeightFormat::kIq4G32 ||
         format == WeightFormat::kE2m1G16;
}

PackedLeaves packed_floats(WeightFormat format, const IntegerShape& shape, GoldenInputs* inputs) {
  const std::vector<Bf16> weight = inputs->bf16s(std::size_t{shape.columns} * shape.k());
  PackedLeaves packed;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const QuantizeLeaf& leaf = shape.leaves[i];
    packed[i].resize(weight_bytes(format, leaf.k, shape.columns));
    pack_weight(
        {weight.data() + leaf.first_k, shape.columns, leaf.k, shape.k()}, format, packed[i]);
  }
  return packed;
}

// As steps of two levels: 8 bits of each.
void make_steps(std::vector<float>& numbers) {
  for (float& number : numbers) {
    number = static_cast<float>(static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(number)));
  }
}

std::vector<float> f16s(std::size_t count, GoldenInputs* inputs) {
  std::vector<float> numbers = inputs->floats(count);
  for (float& number : numbers) {
    number = tensor::to_float(tensor::to_f16(number));
  }
  return numbers;
}

// Any codes, and scales that no f16 is.
PackedLeaves packed_codes(WeightFormat format, const IntegerShape& shape, GoldenInputs* inputs) {
  const WeightTraits& traits = traits_of(format);
  PackedLeaves packed;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const std::size_t count = std::size_t{shape.columns} * shape.leaves[i].k;
    const std::vector<float> numbers = inputs->floats(count);
    std::vector<float> scales = inputs->floats(count / 16);
    std::vector<float> minima = inputs->floats(count / 16);
    std::vector<float> superscales;
    std::vector<float> superminima;
    const bool two_levels = traits.has_two_levels();
    if (two_levels) {
      const std::size_t superblocks = (shape.leaves[i].k + kSuperblock - 1) / kSuperblock;
      make_steps(scales);
      make_steps(minima);
      superscales = f16s(shape.columns * superblocks, inputs);
      superminima = f16s(shape.columns * superblocks, inputs);
    }
    std::vector<std::int8_t> codes(count);
    for (std::size_t at = 0; at < count; ++at) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(numbers[at]);
      const std::uint32_t stored = bits & ((1U << traits.code_bits) - 1);
      codes[at] =
          traits.table != nullptr
              ? (*traits.table)[stored]
              : static_cast<std::int8_t>(static_cast<std::int32_t>(stored) - traits.code_bias);
    }
    packed[i].resize(weight_bytes(format, shape.leaves[i].k, shape.columns));
    const Status done = pack_coded_strips({codes.data(),
                                           scales.data(),
                                           minima.data(),
                                           shape.columns,
                                           shape.leaves[i].k,
                                           two_levels ? superscales.data() : nullptr,
                                           two_levels ? superminima.data() : nullptr},
                                          format,
                                          packed[i]);
    PHALANX_CHECK(done.has_value(), "golden scales are finite");
  }
  return packed;
}

// Activations of the rows of a shape, as floats and as codes.
struct GoldenRows {
  GoldenRows(const IntegerShape& of, GoldenInputs* inputs)
      : shape(of),
        x(inputs->floats(std::size_t{of.rows} * of.k())),
        stride(code_stride(of.leaves.data(), 2)),
        codes(of.rows * stride),
        sums(codes.size() / kDotBlock),
        scales(codes.size() / kDotBlock) {}

  QuantizedRows quantize(const KernelTable& table, ScaleSpan span, Fingerprint* hash) {
    const QuantizedRows rows{codes.data(), stride, sums.data(), scales.data(), span};
    for (std::uint32_t tile = 0; tile < row_tiles(shape.rows); ++tile) {
      table.quantize({x.data(), shape.k(), shape.rows, shape.leaves.data(), 2, rows}, tile);
    }
    add(hash, codes);
    add(hash, scales);
    return rows;
  }

  const IntegerShape& shape;
  std::vector<float> x;
  std::size_t stride;
  std::vector<std::int8_t> codes;
  std::vector<std::int32_t> sums;
  std::vector<float> scales;
};

// One for each of some formats.
struct Weight {
  WeightFormat format;
  PackedLeaves packed;
};

void add_products(const KernelTable& table,
                  const IntegerShape& shape,
                  std::span<const Weight> weights,
                  const QuantizedRows& quantized,
                  Fingerprint* hash) {
  for (const auto& [format, packed] : weights) {
    for (const auto& [rows, columns] : shape.products) {
      std::array<MatmulLeaf, 2> leaves;
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        const QuantizeLeaf& leaf = shape.leaves[i];
        leaves[i] = {{format, leaf.k, columns, packed[i].data()}, leaf.first_k};
      }
      plan_leaves(2, 0, leaves);
      std::vector<float> out(std::size_t{rows} * columns);
      MatmulArgs args;
      args.rows = rows;
      args.leaves = leaves.data();
      args.leaf_count = 2;
      args.columns = columns;
      args.out = out.data();
      args.out_stride = columns;
      args.quantized = quantized;
      for (std::uint32_t tile = 0; tile < matmul_tiles(args); ++tile) {
        table.matmul(args, tile);
      }
      add(hash, out);
    }
  }
}

std::vector<Weight> make_weights(const IntegerShape& shape,
                                 bool (*is_wanted)(WeightFormat),
                                 GoldenInputs* inputs,
                                 Fingerprint* hash) {
  std::vector<Weight> weights;
  for (const WeightFormat format : kWeightFormats) {
    if (format == WeightFormat::kBf16 || !is_wanted(format)) {
      continue;
    }
    weights.push_back({format,
                       traits_of(format).from_floats ? packed_floats(format, shape, inputs)
                                                     : packed_codes(format, shape, inputs)});
    for (const std::vector<std::byte>& leaf : weights.back().packed) {
      add(hash, leaf);
    }
  }
  return weights;
}

}  // namespace

void add_embedding(const WeightView& table, Fingerprint* hash) {
  std::vector<TokenId> tokens;
  for (std::uint32_t token = table.columns; token > 0; --token) {
    tokens.push_back(static_cast<TokenId>(token - 1));
  }
  std::vector<float> x(tokens.size() * table.rows);
  for (std::uint32_t tile = 0; tile < row_tiles(table.columns); ++tile) {
    embedding({table, tokens.data(), table.columns, x.data(), table.rows}, tile);
  }
  add(hash, x);
}

void add_golden_integers(const KernelTable& table, GoldenInputs* inputs, Fingerprint* hash) {
  const auto every = [](WeightFormat /*format*/) { return true; };
  const std::vector<Weight> all = make_weights(kShort, every, inputs, hash);
  for (const auto& [format, packed] : all) {
    add_embedding({format, kShort.leaves[0].k, kShort.columns, packed[0].data()}, hash);
  }
  GoldenRows rows(kShort, inputs);
  for (const ScaleSpan span : {ScaleSpan::kLeaf, ScaleSpan::kBlock}) {
    add_products(table, kShort, all, rows.quantize(table, span, hash), hash);
  }

  const std::vector<Weight> kinds = make_weights(kLong, is_of_its_own_kind, inputs, hash);
  GoldenRows long_rows(kLong, inputs);
  add_products(table, kLong, kinds, long_rows.quantize(table, ScaleSpan::kBlock, hash), hash);
  // One sum for all of a leaf, which is a kind of its own.
  const auto whole = std::span(kinds).first(1);
  PHALANX_CHECK(whole[0].format == WeightFormat::kInt8, "formats are in their order");
  add_products(table, kLong, whole, long_rows.quantize(table, ScaleSpan::kLeaf, hash), hash);
}

}  // namespace phalanx::kernels
