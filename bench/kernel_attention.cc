// SPDX-License-Identifier: Apache-2.0
#include "kernel_attention.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>

#include "phalanx/base/check.h"

namespace phalanx::bench {
namespace {

constexpr std::uint32_t kContextTokens = 8192;  // of all contexts of a step
constexpr std::uint32_t kSegments = kContextTokens / kernels::kSegmentTokens;
constexpr std::uint32_t kRecords = kSegments * kHeads;  // of a row with the longest context
// With twice as many threads as KV heads, contexts that stayed whole would leave half without work.
constexpr kernels::AttentionTeam kDividing = {2 * kKvHeads, kRecords};

struct AttentionShape {
  step::KvFormat format = step::KvFormat::kBf16;
  std::uint32_t sequences = 1;
  std::uint32_t rows = 1;
  std::uint32_t context = 0;
  kernels::AttentionTeam team = {};
};

struct AttentionStep {
  std::vector<kernels::AttentionSequence> sequences;
  kernels::AttentionArgs args;
  kernels::AttentionPlan plan;
};

class Attention {
 public:
  Attention(const kernels::KernelTable& table, Scratch& scratch)
      : table_(table), scratch_(scratch), blocks_(kContextTokens / kernels::kKvBlockTokens) {
    std::iota(blocks_.rbegin(), blocks_.rend(), 0U);
    records_.floats = kernels::attention_record_floats(kHeadDim);
    lines_.resize(kRecords * records_.floats / kLineFloats);
    records_.data = lines_.front().values;
  }

  // Sequences lie one behind the other in the blocks, from the last to the first.
  [[nodiscard]] AttentionStep step(const AttentionShape& shape, std::size_t turn) const {
    const std::size_t tile = kernels::kv_tile(shape.format, kHeadDim).bytes;
    const std::size_t bytes = blocks_.size() * kKvHeads * tile;
    const std::size_t blocks =
        (shape.context + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
    AttentionStep step;
    step.sequences.resize(shape.sequences);
    for (std::uint32_t i = 0; i < shape.sequences; ++i) {
      step.sequences[i].first_row = i * shape.rows;
      step.sequences[i].row_count = shape.rows;
      step.sequences[i].first_position = shape.context - shape.rows;
      step.sequences[i].blocks = blocks_.data() + i * blocks;
    }
    kernels::AttentionArgs& args = step.args;
    args.q = reinterpret_cast<const tensor::Bf16*>(scratch_.in.data());
    args.q_stride = std::size_t{kHeads} * kHeadDim;
    args.out = reinterpret_cast<tensor::Bf16*>(scratch_.out.data());
    args.out_stride = args.q_stride;
    args.kv = {scratch_.weights.data() + turn % (kWeightBytes / bytes) * bytes,
               tile * kKvHeads,
               tile,
               shape.format};
    args.kv_heads = kKvHeads;
    args.group = kGroup;
    args.head_dim = kHeadDim;
    args.scale = kernels::attention_scale(kHeadDim);
    args.sequences = step.sequences.data();
    args.sequence_count = shape.sequences;
    args.records = records_;
    step.plan = kernels::plan_attention(step.sequences, kKvHeads, kGroup, shape.team);
    return step;
  }

  void attend(const AttentionStep& step) const {
    for (std::uint32_t i = 0; i < step.plan.tiles; ++i) {
      table_.attention(step.args, i);
    }
  }
  void fold(const AttentionStep& step) const {
    for (std::uint32_t i = 0; i < step.plan.folds; ++i) {
      table_.attention_fold(step.args, i);
    }
  }

 private:
  static constexpr std::size_t kLineFloats = 16;
  struct alignas(64) Line {
    float values[kLineFloats];
  };

  const kernels::KernelTable& table_;
  Scratch& scratch_;
  std::vector<std::uint32_t> blocks_;
  std::vector<Line> lines_;
  kernels::AttentionRecords records_;  // in lines_
};

Case named(const std::string& name, const AttentionShape& shape) {
  Case attention;
  attention.name = "\"kernel\":\"" + name + "\",\"sequences\":" + std::to_string(shape.sequences) +
                   ",\"rows\":" + std::to_string(shape.rows) +
                   ",\"context\":" + std::to_string(shape.context);
  attention.row = name + " " + std::to_string(shape.sequences) + " x " +
                  std::to_string(shape.rows) + " at " + std::to_string(shape.context);
  return attention;
}

// With the sums of the parts, where the context is divided.
Case attention_case(const std::shared_ptr<const Attention>& attention,
                    const std::string& name,
                    const AttentionShape& shape) {
  Case one = named(with_kv_format(name, shape.format), shape);
  const double rows = shape.rows;
  const double pairs = rows * shape.context - rows * (rows - 1.0) / 2;
  one.operations = 4.0 * shape.sequences * pairs * kHeads * kHeadDim;
  one.bytes = static_cast<double>(kernels::kv_tile(shape.format, kHeadDim).bytes) /
              kernels::kKvBlockTokens * shape.sequences * shape.context * kKvHeads;
  one.run = [attention, shape](std::size_t turn) {
    const AttentionStep step = attention->step(shape, turn);
    attention->attend(step);
    attention->fold(step);
  };
  return one;
}

// Adding up alone: a product and an addition for each value of a record.
Case fold_case(const std::shared_ptr<const Attention>& attention, const AttentionShape& shape) {
  Case one = named("attention_fold", shape);
  const auto step = std::make_shared<const AttentionStep>(attention->step(shape, 0));
  attention->attend(*step);
  one.operations = 2.0 * kRecords * kHeadDim;
  one.bytes = static_cast<double>(kRecords * step->args.records.floats * sizeof(float));
  one.run = [attention, step](std::size_t /*turn*/) { attention->fold(*step); };
  return one;
}

}  // namespace

void add_attention_kernels(std::vector<Case>& cases,
                           const kernels::KernelTable& table,
                           Scratch& scratch) {
  const auto attention = std::make_shared<const Attention>(table, scratch);
  for (const AttentionShape& shape : {AttentionShape{.rows = 512, .context = 512},
                                      AttentionShape{.context = 128},
                                      AttentionShape{.sequences = 16, .context = 132},
                                      AttentionShape{.context = kContextTokens}}) {
    for (const step::KvFormat format : kKvFormats) {
      AttentionShape of_format = shape;
      of_format.format = format;
      cases.push_back(attention_case(attention, "attention", of_format));
    }
  }
  for (const step::KvFormat format : kKvFormats) {
    const AttentionShape divided = {.format = format, .context = kContextTokens, .team = kDividing};
    const AttentionStep step = attention->step(divided, 0);
    PHALANX_CHECK(step.plan.folds > 0, "threads without work divide a context");
    cases.push_back(attention_case(attention, "attention-parts", divided));
    cases.back().name += ",\"parts\":" + std::to_string(step.sequences.front().parts);
  }
  cases.push_back(fold_case(attention, {.context = kContextTokens, .team = kDividing}));
}

}  // namespace phalanx::bench
