// SPDX-License-Identifier: Apache-2.0
// The golden vectors of the arithmetic and their hash.
#include "phalanx/kernels/arithmetic_version.h"

#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/base/hash.h"
#include "phalanx/kernels/float_mode.h"

#include "golden_inputs.h"

namespace phalanx::kernels {

namespace {

// A product over a summation tree whose rows, columns and longest leaf cross every blocking
// boundary.
struct GoldenProduct {
  static constexpr std::uint32_t kRows = 71;
  static constexpr std::uint32_t kColumns = 72;
  static constexpr std::uint32_t kLeafK[] = {64, 40, 700, 32, 2};

  explicit GoldenProduct(GoldenInputs* inputs) {
    for (const std::uint32_t count : kLeafK) {
      const std::vector<Bf16> weight = inputs->bf16s(std::size_t{kColumns} * count);
      packed.emplace_back(packed_elements(kColumns, count));
      const auto bytes = std::as_writable_bytes(std::span(packed.back()));
      pack_weight({weight.data(), kColumns, count, count}, WeightFormat::kBf16, bytes);
      leaves.push_back({{WeightFormat::kBf16, count, kColumns, bytes.data()}, k, 0, true});
      k += count;
    }
    activations = inputs->bf16s(std::size_t{kRows} * k);
    bias = inputs->floats(kColumns);
  }

  std::vector<std::vector<Bf16>> packed;
  std::vector<MatmulLeaf> leaves;
  std::uint32_t k = 0;
  std::vector<Bf16> activations;
  std::vector<float> bias;
};

void add_matmul(const KernelTable& table, GoldenInputs* inputs, Fingerprint* hash) {
  constexpr std::uint32_t kRows = GoldenProduct::kRows;
  constexpr std::uint32_t kColumns = GoldenProduct::kColumns;
  GoldenProduct product(inputs);
  for (const std::uint32_t first : {0U, 1U}) {
    const std::span<MatmulLeaf> run = std::span(product.leaves).subspan(first);
    const std::uint32_t nodes = plan_leaves(5, first, run);
    std::vector<float> out(std::size_t{nodes} * kRows * kColumns);
    const MatmulArgs args{product.activations.data(),
                          product.k,
                          kRows,
                          run.data(),
                          static_cast<std::uint32_t>(run.size()),
                          kColumns,
                          out.data(),
                          kColumns,
                          std::size_t{kRows} * kColumns,
                          nodes == 1 ? product.bias.data() : nullptr};
    for (std::uint32_t tile = 0; tile < matmul_tiles(args); ++tile) {
      table.matmul(args, tile);
    }
    add(hash, out);
  }
}

// Results are rounded to bf16, which hides a wrong last bit of fp32 in all but one of some 2^15
// elements; so there are many.
void add_rows(const KernelTable& table, GoldenInputs* inputs, Fingerprint* hash) {
  constexpr std::uint32_t kRows = 96;
  constexpr std::uint32_t kHidden = 1000;
  constexpr std::size_t kElements = std::size_t{kRows} * kHidden;
  std::vector<float> x = inputs->floats(kElements);
  const std::vector<float> delta = inputs->floats(kElements);
  const std::vector<float> gain = inputs->floats(kHidden);
  const std::vector<float> bias = inputs->floats(kHidden);
  std::vector<Bf16> out(kElements);
  for (std::uint32_t tile = 0; tile < row_tiles(kRows); ++tile) {
    table.rms_norm({x.data(),
                    kHidden,
                    delta.data(),
                    kHidden,
                    gain.data(),
                    1e-6F,
                    out.data(),
                    kHidden,
                    kRows,
                    kHidden,
                    bias.data()},
                   tile);
  }
  add(hash, x);
  add(hash, out);
  for (std::uint32_t tile = 0; tile < row_tiles(kRows); ++tile) {
    table.swiglu({x.data(), kHidden, delta.data(), kHidden, out.data(), kHidden, kRows, kHidden},
                 tile);
  }
  add(hash, out);
}

void add_vocab(const KernelTable& table, GoldenInputs* inputs, Fingerprint* hash) {
  const std::vector<float> logits = inputs->floats(1000);
  const VocabSlice slice{logits.data(), 1000, 37};
  VocabPeak peak;
  table.vocab_max(slice, &peak);
  const std::int64_t mass = table.vocab_mass(slice, {}, peak.value);
  VocabHistogram histogram;
  table.vocab_histogram({slice, {}, peak.value, 0, 24}, &histogram);
  std::vector<float> logprobs;
  logprobs.reserve(logits.size());
  for (const float logit : logits) {
    logprobs.push_back(log_softmax(logit, peak.value, mass));
  }
  hash->add(static_cast<std::uint64_t>(peak.id)).add(static_cast<std::uint64_t>(mass));
  hash->add_bytes(std::as_bytes(std::span(histogram.mass)));
  add(hash, logprobs);
  for (std::uint32_t position = 0; position < 50; ++position) {
    VocabPeak drawn;
    table.gumbel_max(slice, {}, {0x0123456789ABCDEFULL, 3, position}, &drawn);
    hash->add(static_cast<std::uint64_t>(drawn.id));
    add(hash, std::vector<float>{drawn.value});
  }
}

// Products of integers over two leaves of 160 and of 64 elements.
constexpr std::uint32_t kIntegerRows = 9;
constexpr std::uint32_t kFewIntegerRows = 2;  // which are multiplied by codes as they lie
constexpr std::uint32_t kIntegerColumns = 40;
constexpr std::uint32_t kIntegerK = 224;
constexpr std::size_t kIntegerStride = 256;
constexpr QuantizeLeaf kIntegerLeaves[] = {{0, 160}, {160, 64}};

using PackedLeaves = std::array<std::vector<std::byte>, std::size(kIntegerLeaves)>;

PackedLeaves packed_floats(WeightFormat format, const std::vector<Bf16>& weight) {
  PackedLeaves packed;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const QuantizeLeaf& leaf = kIntegerLeaves[i];
    packed[i].resize(weight_bytes(format, leaf.k, kIntegerColumns));
    pack_weight(
        {weight.data() + leaf.first_k, kIntegerColumns, leaf.k, kIntegerK}, format, packed[i]);
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
PackedLeaves packed_codes(WeightFormat format, GoldenInputs* inputs) {
  const WeightTraits& traits = traits_of(format);
  PackedLeaves packed;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const std::size_t count = std::size_t{kIntegerColumns} * kIntegerLeaves[i].k;
    const std::vector<float> numbers = inputs->floats(count);
    std::vector<float> scales = inputs->floats(count / 16);
    std::vector<float> minima = inputs->floats(count / 16);
    std::vector<float> superscales;
    std::vector<float> superminima;
    const bool two_levels = traits.has_two_levels();
    if (two_levels) {
      const std::size_t superblocks = (kIntegerLeaves[i].k + kSuperblock - 1) / kSuperblock;
      make_steps(scales);
      make_steps(minima);
      superscales = f16s(kIntegerColumns * superblocks, inputs);
      superminima = f16s(kIntegerColumns * superblocks, inputs);
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
    packed[i].resize(weight_bytes(format, kIntegerLeaves[i].k, kIntegerColumns));
    const Status done = pack_coded_strips({codes.data(),
                                           scales.data(),
                                           minima.data(),
                                           kIntegerColumns,
                                           kIntegerLeaves[i].k,
                                           two_levels ? superscales.data() : nullptr,
                                           two_levels ? superminima.data() : nullptr},
                                          format,
                                          packed[i]);
    PHALANX_CHECK(done.has_value(), "golden scales are finite");
  }
  return packed;
}

void add_integer_product(const KernelTable& table,
                         WeightFormat format,
                         const PackedLeaves& packed,
                         const QuantizedRows& rows,
                         std::uint32_t row_count,
                         Fingerprint* hash) {
  std::vector<MatmulLeaf> leaves;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const QuantizeLeaf& leaf = kIntegerLeaves[i];
    leaves.push_back({{format, leaf.k, kIntegerColumns, packed[i].data()}, leaf.first_k});
  }
  plan_leaves(2, 0, leaves);
  std::vector<float> out(std::size_t{row_count} * kIntegerColumns);
  MatmulArgs args;
  args.rows = row_count;
  args.leaves = leaves.data();
  args.leaf_count = 2;
  args.columns = kIntegerColumns;
  args.out = out.data();
  args.out_stride = kIntegerColumns;
  args.quantized = rows;
  for (std::uint32_t tile = 0; tile < matmul_tiles(args); ++tile) {
    table.matmul(args, tile);
  }
  add(hash, packed[0]);
  add(hash, out);
}

void add_integers(const KernelTable& table, GoldenInputs* inputs, Fingerprint* hash) {
  const std::vector<float> x = inputs->floats(std::size_t{kIntegerRows} * kIntegerK);
  const std::vector<Bf16> weight = inputs->bf16s(std::size_t{kIntegerColumns} * kIntegerK);
  std::vector<std::int8_t> codes(kIntegerRows * kIntegerStride);
  std::vector<std::int32_t> sums(codes.size() / kDotBlock);
  std::vector<float> scales(codes.size() / kDotBlock);
  for (const ScaleSpan span : {ScaleSpan::kLeaf, ScaleSpan::kBlock}) {
    const QuantizedRows rows{codes.data(), kIntegerStride, sums.data(), scales.data(), span};
    for (std::uint32_t tile = 0; tile < row_tiles(kIntegerRows); ++tile) {
      table.quantize({x.data(), kIntegerK, kIntegerRows, kIntegerLeaves, 2, rows}, tile);
    }
    add(hash, codes);
    add(hash, scales);
    for (const WeightFormat format : kWeightFormats) {
      if (format != WeightFormat::kBf16) {
        const PackedLeaves packed = traits_of(format).from_floats ? packed_floats(format, weight)
                                                                  : packed_codes(format, inputs);
        add_integer_product(table, format, packed, rows, kIntegerRows, hash);
        add_integer_product(table, format, packed, rows, kFewIntegerRows, hash);
      }
    }
  }
}

}  // namespace

std::uint64_t arithmetic_version(const KernelTable& table) {
  const FloatModeScope mode;
  GoldenInputs inputs;
  Fingerprint hash;
  add_matmul(table, &inputs, &hash);
  add_rows(table, &inputs, &hash);
  add_golden_attention(table, &inputs, &hash);
  add_vocab(table, &inputs, &hash);
  add_integers(table, &inputs, &hash);
  return hash.value();
}

}  // namespace phalanx::kernels
