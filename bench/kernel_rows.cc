// SPDX-License-Identifier: Apache-2.0
// Rows lie in the same memory in every turn, as those of a step do: caches hold some of them.
// Tokens of the embedding are others in every turn, anywhere in a table as large as the weights.
#include "kernel_rows.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "phalanx/base/philox.h"
#include "phalanx/checkpoint/config.h"
#include "phalanx/kernels/rope.h"

namespace phalanx::bench {
namespace {

constexpr float kEpsilon = 1e-6F;
constexpr std::size_t kPairs = kHeadDim / 2;
constexpr std::size_t kTokenTurns = 64;
constexpr auto kF32Bytes = static_cast<double>(sizeof(float));
constexpr auto kBf16Bytes = static_cast<double>(sizeof(tensor::Bf16));

// What kernels read and write besides the scratch memory.
struct RowMemory {
  kernels::RopeFrequencies frequencies;
  std::vector<std::uint32_t> positions = std::vector<std::uint32_t>(kMaxRows);
  std::vector<float> cos = std::vector<float>(kMaxRows * kPairs);
  std::vector<float> sin = std::vector<float>(kMaxRows * kPairs);
  std::vector<kernels::QuantizeLeaf> leaves;
  std::vector<std::int32_t> sums = std::vector<std::int32_t>(kMaxRows * kIntermediate / 32);
  std::vector<float> scales = std::vector<float>(kMaxRows * kIntermediate / 32);
  std::vector<std::uint64_t> slots = std::vector<std::uint64_t>(kMaxRows);
  std::atomic<std::uint64_t> non_finite{0};
};

// Of one row.
struct RowWork {
  double operations = 0.0;
  double bytes = 0.0;
};

class RowCases {
 public:
  RowCases(std::vector<Case>& cases,
           const kernels::KernelTable& table,
           Scratch& scratch,
           kernels::RopeFrequencies frequencies)
      : cases_(cases),
        table_(table),
        weights_(scratch.weights.data()),
        in_(reinterpret_cast<float*>(scratch.in.data())),
        out_(scratch.out.data()),
        memory_(std::make_shared<RowMemory>()) {
    memory_->frequencies = std::move(frequencies);
    std::iota(memory_->positions.begin(), memory_->positions.end(), 0U);
    std::iota(memory_->slots.begin(), memory_->slots.end(), std::uint64_t{0});
  }

  void norm() {
    kernels::RmsNormArgs args;
    args.x = in_;
    args.x_stride = args.out_stride = args.hidden = kHidden;
    args.gain = in_;
    args.epsilon = kEpsilon;
    args.rows = kMaxRows;
    args.out = out<tensor::Bf16>();
    add("rms_norm", {4.0 * kHidden, (kF32Bytes + kBf16Bytes) * kHidden}, table_.rms_norm, args);
    args.out = nullptr;
    args.out_wide = out<float>();
    add("rms_norm-wide", {4.0 * kHidden, 2 * kF32Bytes * kHidden}, table_.rms_norm, args);
  }

  void heads() {
    kernels::RopeRowsArgs tables;
    tables.frequencies = &memory_->frequencies;
    tables.positions = memory_->positions.data();
    tables.rows = kMaxRows;
    tables.cos = memory_->cos.data();
    tables.sin = memory_->sin.data();
    tables.rope_stride = kPairs;
    add("rope_rows", {5.0 * kPairs, 2 * kF32Bytes * kPairs}, kernels::rope_rows, tables);
    for (std::uint32_t tile = 0; tile < kernels::row_tiles(kMaxRows); ++tile) {
      kernels::rope_rows(tables, tile);
    }
    kernels::HeadNormRopeArgs args;
    args.x = in_;
    args.x_stride = args.out_stride = std::size_t{kHeads} * kHeadDim;
    args.gain = in_;
    args.epsilon = kEpsilon;
    args.cos = memory_->cos.data();
    args.sin = memory_->sin.data();
    args.rope_stride = kPairs;
    args.out = out<tensor::Bf16>();
    args.rows = kMaxRows;
    args.heads = kHeads;
    args.head_dim = kHeadDim;
    constexpr double kValues = kHeads * kHeadDim;
    constexpr double kBytes = (kF32Bytes + kBf16Bytes) * kValues + 2 * kF32Bytes * kPairs;
    add("head_norm_rope", {7 * kValues, kBytes}, table_.head_norm_rope, args);
    args.gain = nullptr;
    add("head_norm_rope-no-norm", {3 * kValues, kBytes}, table_.head_norm_rope, args);
  }

  void gate() {
    constexpr double kValues = kIntermediate;
    kernels::SwigluArgs args;
    args.gate = in_;
    args.up = in_ + std::size_t{kMaxRows} * kIntermediate;
    args.gate_stride = args.up_stride = args.out_stride = args.columns = kIntermediate;
    args.rows = kMaxRows;
    args.out = out<tensor::Bf16>();
    add("swiglu", {4 * kValues, (2 * kF32Bytes + kBf16Bytes) * kValues}, table_.swiglu, args);
    args.out = nullptr;
    args.out_wide = out<float>();
    add("swiglu-wide", {4 * kValues, 3 * kF32Bytes * kValues}, table_.swiglu, args);
  }

  // By blocks, and by the leaves of the down projection.
  void codes() {
    constexpr std::uint32_t kLeafK = kIntermediate / checkpoint::kMlpRuns;
    constexpr double kValues = kIntermediate;
    constexpr double kBytes =
        (kF32Bytes + 1) * kValues + 2 * kF32Bytes * kValues / kernels::kDotBlock;
    memory_->leaves.push_back({0, kIntermediate});
    for (std::uint32_t i = 0; i < checkpoint::kMlpRuns; ++i) {
      memory_->leaves.push_back({i * kLeafK, kLeafK});
    }
    kernels::QuantizeArgs args;
    args.x = in_;
    args.x_stride = kIntermediate;
    args.rows = kMaxRows;
    args.leaves = memory_->leaves.data();
    args.leaf_count = 1;
    args.out = {out<std::int8_t>(),
                kIntermediate,
                memory_->sums.data(),
                memory_->scales.data(),
                kernels::ScaleSpan::kBlock};
    add("quantize", {4 * kValues, kBytes}, table_.quantize, args);
    args.leaves += 1;
    args.leaf_count = checkpoint::kMlpRuns;
    args.out.span = kernels::ScaleSpan::kLeaf;
    add("quantize-leaves", {4 * kValues, kBytes}, table_.quantize, args);
  }

  void keys_and_values() {
    constexpr double kValues = kKvHeads * kHeadDim;  // of keys, and as many of values
    kernels::KvAppendArgs args;
    args.keys = reinterpret_cast<const tensor::Bf16*>(in_);
    args.values = in_ + std::size_t{kMaxRows} * kKvHeads * kHeadDim;
    args.key_stride = args.value_stride = std::size_t{kKvHeads} * kHeadDim;
    args.slots = memory_->slots.data();
    args.rows = kMaxRows;
    args.kv_heads = kKvHeads;
    args.head_dim = kHeadDim;
    args.non_finite = &memory_->non_finite;
    for (const kernels::KvFormat format : kKvFormats) {
      const std::size_t tile = kernels::kv_tile(format, kHeadDim).bytes;
      args.kv = {out_, tile * kKvHeads, tile, format};
      const double of_cache = static_cast<double>(tile * kKvHeads) / kernels::kKvBlockTokens;
      const double operations = format == kernels::KvFormat::kInt8 ? 2 * 3 * kValues : 0.0;
      add(with_kv_format("kv_append", format),
          {operations, (kBf16Bytes + kF32Bytes) * kValues + of_cache},
          table_.kv_append,
          args,
          kernels::kv_append_tiles(args));
    }
  }

  // Every line of a strip has something of each of its tokens.
  void embedding(kernels::WeightFormat format) {
    const std::size_t strip = kernels::weight_bytes(format, kHidden, kernels::kStripColumns);
    kernels::EmbeddingArgs args;
    args.table = {format,
                  kHidden,
                  static_cast<std::uint32_t>(kWeightBytes / strip * kernels::kStripColumns),
                  weights_};
    args.rows = kMaxRows;
    args.x = out<float>();
    args.x_stride = kHidden;
    const bool has_minima = kernels::traits_of(format).has_minima;
    const double of_value = format == kernels::WeightFormat::kBf16 ? 0.0 : has_minima ? 2.0 : 1.0;
    const std::string name(kernels::weight_format_name(format));
    Case& one =
        add("embedding", {of_value * kHidden, static_cast<double>(strip) + kF32Bytes * kHidden});
    one.name += ",\"format\":\"" + name + "\"";
    one.row += " " + name;
    one.run = [args, tokens = random_tokens(args.table.columns)](std::size_t turn) {
      kernels::EmbeddingArgs of_turn = args;
      of_turn.tokens = tokens.data() + turn % kTokenTurns * kMaxRows;
      for (std::uint32_t tile = 0; tile < kernels::row_tiles(kMaxRows); ++tile) {
        kernels::embedding(of_turn, tile);
      }
    };
  }

 private:
  template <typename T>
  [[nodiscard]] T* out() const {
    return reinterpret_cast<T*>(out_);
  }

  [[nodiscard]] static std::vector<TokenId> random_tokens(std::uint32_t vocab) {
    std::vector<TokenId> tokens(kTokenTurns * kMaxRows);
    for (std::uint32_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<TokenId>(philox4x32({i, 0, 0, 0}, {1, 2})[0] % vocab);
    }
    return tokens;
  }

  Case& add(const std::string& name, const RowWork& work) {
    Case& one = cases_.emplace_back();
    one.name = "\"kernel\":\"" + name + "\",\"rows\":" + std::to_string(kMaxRows);
    one.row = name;
    one.operations = work.operations * kMaxRows;
    one.bytes = work.bytes * kMaxRows;
    return one;
  }

  template <typename Kernel, typename Args>
  void add(const std::string& name,
           const RowWork& work,
           Kernel kernel,
           const Args& args,
           std::uint32_t tiles = kernels::row_tiles(kMaxRows)) {
    add(name, work).run = [memory = memory_, kernel, args, tiles](std::size_t /*turn*/) {
      for (std::uint32_t tile = 0; tile < tiles; ++tile) {
        kernel(args, tile);
      }
    };
  }

  std::vector<Case>& cases_;
  const kernels::KernelTable& table_;
  std::byte* weights_;
  float* in_;
  std::byte* out_;
  std::shared_ptr<RowMemory> memory_;
};

}  // namespace

Status add_row_kernels(std::vector<Case>& cases,
                       const kernels::KernelTable& table,
                       Scratch& scratch,
                       std::span<const kernels::WeightFormat> formats) {
  kernels::RopeConfig config;
  config.head_dim = kHeadDim;
  config.theta = 1e6;
  PHALANX_TRY(kernels::RopeFrequencies frequencies, kernels::make_rope_frequencies(config));
  RowCases rows(cases, table, scratch, std::move(frequencies));
  for (const kernels::WeightFormat format : formats) {
    rows.embedding(format);
  }
  rows.norm();
  rows.heads();
  rows.keys_and_values();
  rows.gate();
  rows.codes();
  return ok();
}

}  // namespace phalanx::bench
