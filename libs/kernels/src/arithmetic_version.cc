// SPDX-License-Identifier: Apache-2.0
// The golden vectors of the arithmetic and their hash.
#include "phalanx/kernels/arithmetic_version.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <iterator>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/base/hash.h"
#include "phalanx/kernels/float_mode.h"

namespace phalanx::kernels {

namespace {

// Inputs by integer arithmetic alone: numbers in (−4, 4) with exponents from 2^-20 up.
class GoldenInputs {
 public:
  float next() {
    if (counter_ % 2 == 0) {
      bits_ = mix64(counter_ / 2 + 1);
    }
    ++counter_;
    const auto half = static_cast<std::uint32_t>(bits_);
    bits_ >>= 32;
    const float mantissa = static_cast<float>(half & 0xFFFFFF) * 0x1p-23F - 1.0F;
    const std::uint32_t shift = (half >> 24) % 20;
    // 4 ÷ 2^shift by its exponent.
    return mantissa * std::bit_cast<float>((129 - (shift < 12 ? 0 : shift)) << 23);
  }
  std::vector<float> floats(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) {
      value = next();
    }
    return values;
  }
  std::vector<Bf16> bf16s(std::size_t count) {
    std::vector<Bf16> values(count);
    for (Bf16& value : values) {
      value = tensor::to_bf16(next());
    }
    return values;
  }

 private:
  std::uint64_t counter_ = 0;
  std::uint64_t bits_ = 0;
};

template <typename T>
void add(Fingerprint* hash, const std::vector<T>& values) {
  hash->add_bytes(std::as_bytes(std::span(values)));
}

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

// Query, key and rotary tables, the KV cache and attention, as in a layer.
struct GoldenLayer {
  static constexpr std::uint32_t kRows = 1100;  // more than a segment of the context
  static constexpr std::uint32_t kHeadDim = 48;
  static constexpr std::uint32_t kGroup = 2;
  static constexpr std::uint32_t kHalf = kHeadDim / 2;
  static constexpr std::size_t kKeyStride = kHeadDim;
  static constexpr std::size_t kQueryStride = std::size_t{kGroup} * kHeadDim;
  static constexpr std::uint32_t kBlockCount = (kRows + 31) / 32;

  explicit GoldenLayer(GoldenInputs* inputs)
      : gain(inputs->floats(kHeadDim)),
        q(inputs->floats(kRows * kQueryStride)),
        k(inputs->floats(kRows * kKeyStride)),
        v(inputs->floats(kRows * kKeyStride)) {
    for (std::uint32_t i = 0; i < kBlockCount; ++i) {
      blocks[i] = kBlockCount - i;  // not in order, as in a real pool
    }
    for (std::uint32_t row = 0; row < kRows; ++row) {
      positions[row] = row;
      slots[row] = blocks[row / 32] * std::uint64_t{32} + row % 32;
    }
  }

  void project(const KernelTable& table, const RopeFrequencies& frequencies) {
    for (std::uint32_t tile = 0; tile < row_tiles(kRows); ++tile) {
      rope_rows({&frequencies, positions.data(), kRows, cos.data(), sin.data(), kHalf}, tile);
      table.head_norm_rope({q.data(),
                            kQueryStride,
                            gain.data(),
                            1e-6F,
                            cos.data(),
                            sin.data(),
                            kHalf,
                            q_rounded.data(),
                            kQueryStride,
                            kRows,
                            kGroup,
                            kHeadDim},
                           tile);
      table.head_norm_rope({k.data(),
                            kKeyStride,
                            gain.data(),
                            1e-6F,
                            cos.data(),
                            sin.data(),
                            kHalf,
                            k_rounded.data(),
                            kKeyStride,
                            kRows,
                            1,
                            kHeadDim},
                           tile);
      table.kv_append({k_rounded.data(),
                       kKeyStride,
                       v.data(),
                       kKeyStride,
                       slots.data(),
                       view(),
                       kRows,
                       1,
                       kHeadDim,
                       &non_finite},
                      tile);
    }
  }

  // Rows first … first + count − 1: more queries than a tile has.
  void attend(const KernelTable& table, std::uint32_t first, std::uint32_t count) {
    AttentionSequence sequence{first, count, first, blocks.data(), 0, 0};
    const std::uint32_t tiles = plan_attention({&sequence, 1}, 1, kGroup);
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
      table.attention({q_rounded.data(),
                       kQueryStride,
                       out.data(),
                       kQueryStride,
                       view(),
                       1,
                       kGroup,
                       kHeadDim,
                       attention_scale(kHeadDim),
                       &sequence,
                       1},
                      tile);
    }
  }

  KvView view() { return {kv.data(), kv_tile_elements(kHeadDim), kv_tile_elements(kHeadDim)}; }

  std::vector<float> gain;
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<std::uint32_t> positions = std::vector<std::uint32_t>(kRows);
  std::vector<std::uint64_t> slots = std::vector<std::uint64_t>(kRows);
  std::vector<float> cos = std::vector<float>(std::size_t{kRows} * kHalf);
  std::vector<float> sin = std::vector<float>(std::size_t{kRows} * kHalf);
  std::vector<Bf16> q_rounded = std::vector<Bf16>(kRows * kQueryStride);
  std::vector<Bf16> k_rounded = std::vector<Bf16>(kRows * kKeyStride);
  std::vector<std::uint32_t> blocks = std::vector<std::uint32_t>(kBlockCount);
  std::vector<Bf16> kv = std::vector<Bf16>((kBlockCount + 1) * kv_tile_elements(kHeadDim));
  std::vector<Bf16> out = std::vector<Bf16>(kRows * kQueryStride);
  std::atomic<std::uint64_t> non_finite{0};
};

void add_attention(const KernelTable& table, GoldenInputs* inputs, Fingerprint* hash) {
  const auto frequencies = make_rope_frequencies({.head_dim = GoldenLayer::kHeadDim,
                                                  .theta = 1e6,
                                                  .scaling = RopeScaling::kYarn,
                                                  .factor = 4.0,
                                                  .original_max_position_embeddings = 64});
  PHALANX_CHECK(frequencies.has_value(), "the golden rope is valid");
  GoldenLayer layer(inputs);
  layer.project(table, *frequencies);
  layer.attend(table, 0, 70);
  layer.attend(table, GoldenLayer::kRows - 40, 40);
  add(hash, layer.cos);
  add(hash, layer.sin);
  add(hash, layer.kv);
  add(hash, layer.out);
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

// Any codes, and scales that no f16 is.
PackedLeaves packed_codes(WeightFormat format, GoldenInputs* inputs) {
  PackedLeaves packed;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const std::size_t count = std::size_t{kIntegerColumns} * kIntegerLeaves[i].k;
    const std::vector<float> numbers = inputs->floats(count);
    const std::vector<float> scales = inputs->floats(count / 16);
    const std::vector<float> minima = inputs->floats(count / 16);
    std::vector<std::int8_t> codes(count);
    for (std::size_t at = 0; at < count; ++at) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(numbers[at]);
      codes[at] = static_cast<std::int8_t>(bits & (traits_of(format).code_bits == 4 ? 15U : 255U));
    }
    packed[i].resize(weight_bytes(format, kIntegerLeaves[i].k, kIntegerColumns));
    const Status done = pack_coded_strips(
        {codes.data(), scales.data(), minima.data(), kIntegerColumns, kIntegerLeaves[i].k},
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
                         Fingerprint* hash) {
  std::vector<MatmulLeaf> leaves;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const QuantizeLeaf& leaf = kIntegerLeaves[i];
    leaves.push_back({{format, leaf.k, kIntegerColumns, packed[i].data()}, leaf.first_k});
  }
  plan_leaves(2, 0, leaves);
  std::vector<float> out(std::size_t{kIntegerRows} * kIntegerColumns);
  MatmulArgs args;
  args.rows = kIntegerRows;
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
        add_integer_product(table, format, packed, rows, hash);
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
  add_attention(table, &inputs, &hash);
  add_vocab(table, &inputs, &hash);
  add_integers(table, &inputs, &hash);
  return hash.value();
}

}  // namespace phalanx::kernels
