// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstddef>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/tensor/arena.h"

#include "golden_inputs.h"

namespace phalanx::kernels {

namespace {

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
    }
  }

  // An empty cache, then all rows in it.
  void fill(const KernelTable& table, KvFormat kv_format) {
    format = kv_format;
    kv.assign((kBlockCount + 2) * kv_tile(format, kHeadDim).bytes, std::byte{0});
    for (std::uint32_t tile = 0; tile < row_tiles(kRows); ++tile) {
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

  // Rows first … first + count − 1. Not rounded where `to_wide` says where to.
  AttentionPlan attend(const KernelTable& table,
                       std::uint32_t first,
                       std::uint32_t count,
                       const AttentionTeam& team = {},
                       float* to_wide = nullptr) {
    AttentionSequence sequence{first, count, first, blocks.data()};
    const AttentionPlan plan = plan_attention({&sequence, 1}, kv_heads, kGroup / kv_heads, team);
    const std::size_t floats = attention_record_floats(kHeadDim);
    const tensor::AlignedBuffer records(team.records * floats * sizeof(float));
    const AttentionArgs args{q_rounded.data(),
                             kQueryStride,
                             to_wide == nullptr ? out.data() : nullptr,
                             kQueryStride,
                             view(),
                             kv_heads,
                             kGroup / kv_heads,
                             kHeadDim,
                             attention_scale(kHeadDim),
                             &sequence,
                             1,
                             to_wide,
                             {records.as<float>().data(), floats}};
    for (std::uint32_t tile = 0; tile < plan.tiles; ++tile) {
      table.attention(args, tile);
    }
    for (std::uint32_t tile = 0; tile < plan.folds; ++tile) {
      table.attention_fold(args, tile);
    }
    return plan;
  }

  KvView view() {
    const std::size_t tile = kv_tile(format, kHeadDim).bytes;
    return {kv.data(), tile, tile, format};
  }

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
  // That the queries are divided among: the second head of a block is the first of the next one.
  std::uint32_t kv_heads = 1;
  KvFormat format = KvFormat::kBf16;
  std::vector<std::byte> kv;
  std::vector<Bf16> out = std::vector<Bf16>(kRows * kQueryStride);
  std::atomic<std::uint64_t> non_finite{0};
};

// Those of each scaling, to the last position that there can be.
void add_rope(Fingerprint* hash) {
  constexpr std::uint32_t kRows = 64;
  constexpr std::uint32_t kHalf = 32;
  std::vector<std::uint32_t> positions(kRows);
  for (std::uint32_t row = 0; row < kRows; ++row) {
    positions[row] = (row + 1) * (std::uint32_t{1} << 18) - 1 - row;
  }
  RopeConfig config{.head_dim = 2 * kHalf, .theta = 5e5, .factor = 8.0};
  for (std::uint32_t i = 0; i < kHalf; ++i) {
    config.divisors.push_back(1.0F + 0.3F * static_cast<float>(i));
  }
  for (const RopeScaling scaling : {RopeScaling::kNone,
                                    RopeScaling::kLinear,
                                    RopeScaling::kLlama3,
                                    RopeScaling::kYarn,
                                    RopeScaling::kDivisors}) {
    config.scaling = scaling;
    const auto frequencies = make_rope_frequencies(config);
    PHALANX_CHECK(frequencies.has_value(), "the golden ropes are valid");
    std::vector<float> cos(std::size_t{kRows} * kHalf);
    std::vector<float> sin(cos.size());
    for (std::uint32_t tile = 0; tile < row_tiles(kRows); ++tile) {
      rope_rows({&*frequencies, positions.data(), kRows, cos.data(), sin.data(), kHalf}, tile);
    }
    add(hash, cos);
    add(hash, sin);
  }
}

}  // namespace

void add_golden_attention(const KernelTable& table, GoldenInputs* inputs, Fingerprint* hash) {
  const auto frequencies = make_rope_frequencies({.head_dim = GoldenLayer::kHeadDim,
                                                  .theta = 1e6,
                                                  .scaling = RopeScaling::kYarn,
                                                  .factor = 4.0,
                                                  .original_max_position_embeddings = 64});
  PHALANX_CHECK(frequencies.has_value(), "the golden rope is valid");
  GoldenLayer layer(inputs);
  layer.project(table, *frequencies);
  add(hash, layer.cos);
  add(hash, layer.sin);
  for (const KvFormat format : {KvFormat::kBf16, KvFormat::kInt8}) {
    layer.fill(table, format);
    layer.attend(table, 0, 70);  // more queries than a tile has
    layer.attend(table, GoldenLayer::kRows - 40, 40);
    add(hash, layer.kv);
    add(hash, layer.out);
    // The context in parts, and what is not rounded.
    constexpr std::uint32_t kCount = 9;  // more queries than a tile register has
    constexpr AttentionTeam kTeam{64, 2 * GoldenLayer::kGroup * kCount};
    std::vector<float> wide(GoldenLayer::kRows * GoldenLayer::kQueryStride);
    const AttentionPlan plan =
        layer.attend(table, GoldenLayer::kRows - kCount, kCount, kTeam, wide.data());
    PHALANX_CHECK(plan.folds != 0, "the golden context is divided");
    add(hash, wide);
    // Tiles of several heads.
    layer.kv_heads = 2;
    for (const std::uint32_t first : {GoldenLayer::kRows - 2, std::uint32_t{37}}) {
      const AttentionPlan together = layer.attend(table, first, 2, {}, wide.data());
      PHALANX_CHECK(together.tiles == 1, "the golden heads go together");
    }
    layer.kv_heads = 1;
    add(hash, wide);
  }
  add_rope(hash);
}

}  // namespace phalanx::kernels
