// SPDX-License-Identifier: Apache-2.0
// The golden vectors of the arithmetic and their hash.
#include "phalanx/kernels/arithmetic_version.h"

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
  static constexpr std::uint32_t kRows = 87;  // 64, then more than a tile register has
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

// Few rows pass over a strip once, and over so much of K that only a long one crosses it.
void add_few_rows(const KernelTable& table, GoldenInputs* inputs, Fingerprint* hash) {
  constexpr std::uint32_t kRows = 4;
  constexpr std::uint32_t kColumns = 24;
  constexpr std::uint32_t kK = 2760;
  const std::vector<Bf16> weight = inputs->bf16s(std::size_t{kColumns} * kK);
  const std::vector<Bf16> activations = inputs->bf16s(std::size_t{kRows} * kK);
  std::vector<Bf16> packed(packed_elements(kColumns, kK));
  const auto bytes = std::as_writable_bytes(std::span(packed));
  pack_weight({weight.data(), kColumns, kK, kK}, WeightFormat::kBf16, bytes);
  const MatmulLeaf leaf{{WeightFormat::kBf16, kK, kColumns, bytes.data()}, 0, 0, true};
  add_embedding(leaf.weight, hash);
  for (std::uint32_t rows = 1; rows <= kRows; ++rows) {
    std::vector<float> out(std::size_t{rows} * kColumns);
    const MatmulArgs args{
        activations.data(), kK, rows, &leaf, 1, kColumns, out.data(), kColumns, 0, nullptr};
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
  // As they are before the rounding.
  std::vector<float> wide(kElements);
  for (std::uint32_t tile = 0; tile < row_tiles(kRows); ++tile) {
    table.rms_norm({x.data(),
                    kHidden,
                    nullptr,
                    0,
                    gain.data(),
                    1e-6F,
                    nullptr,
                    kHidden,
                    kRows,
                    kHidden,
                    nullptr,
                    wide.data()},
                   tile);
  }
  add(hash, wide);
  for (std::uint32_t tile = 0; tile < row_tiles(kRows); ++tile) {
    table.swiglu(
        {x.data(), kHidden, delta.data(), kHidden, nullptr, kHidden, kRows, kHidden, wide.data()},
        tile);
  }
  add(hash, wide);
}

// What a selection lists of a slice, and what is drawn of that.
void add_list(const KernelTable& table, const VocabSlice& slice, float maximum, Fingerprint* hash) {
  std::vector<float> logits(slice.count);
  std::vector<TokenId> ids(slice.count);
  VocabList list{logits.data(), ids.data(), slice.count, 0};
  std::int64_t unlisted_mass = 0;
  const VocabKeep keep{logit_key(maximum - 2.0F), 600};
  const std::uint32_t floor_key = logit_key(maximum - 1.0F);
  const bool listed = table.vocab_list({slice, keep, floor_key, maximum}, &list, &unlisted_mass);
  hash->add(listed ? 1 : 0).add(list.count).add(static_cast<std::uint64_t>(unlisted_mass));
  hash->add_bytes(std::as_bytes(std::span(ids).first(list.count)));
  hash->add_bytes(std::as_bytes(std::span(logits).first(list.count)));
  const VocabKeep narrower{logit_key(maximum - 0.5F), 600};
  for (std::uint32_t position = 0; position < 50; ++position) {
    const GumbelKey key{0x0123456789ABCDEFULL, 3, position};
    VocabPeak of_list;
    table.gumbel_max_of_list(list, narrower, key, &of_list);
    VocabPeak of_slice;
    table.gumbel_max(slice, keep, key, &of_slice);
    hash->add(static_cast<std::uint64_t>(of_list.id)).add(static_cast<std::uint64_t>(of_slice.id));
    add(hash, std::vector<float>{of_list.value, of_slice.value});
  }
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
  add_list(table, slice, peak.value, hash);
  std::vector<float> divided(logits.size());
  table.divide_by_temperature(logits.data(), divided.data(), slice.count, 0.7F);
  add(hash, divided);
}

}  // namespace

std::uint64_t arithmetic_version(const KernelTable& table) {
  const FloatModeScope mode;
  GoldenInputs inputs;
  Fingerprint hash;
  add_matmul(table, &inputs, &hash);
  add_few_rows(table, &inputs, &hash);
  add_rows(table, &inputs, &hash);
  add_golden_attention(table, &inputs, &hash);
  add_vocab(table, &inputs, &hash);
  add_golden_integers(table, &inputs, &hash);
  return hash.value();
}

}  // namespace phalanx::kernels
