// SPDX-License-Identifier: Apache-2.0
// What attention lists and products fetch.
#include "phalanx/kernels/read_ahead.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/model/callables.h"
#include "phalanx/tensor/arena.h"

#include "task_args.h"

namespace phalanx::model {
namespace {

constexpr std::uint32_t kHeadDim = 16;

// A row that decodes behind 40 tokens, of one head.
struct OneRow {
  std::uint32_t blocks[2] = {1, 0};
  kernels::AttentionSequence sequence{0, 1, 40, blocks};
  std::size_t tile = kernels::kv_tile(kernels::KvFormat::kBf16, kHeadDim).bytes;
  tensor::AlignedBuffer kv{4 * tile};
  tensor::AlignedBuffer rows{2 * kHeadDim * sizeof(kernels::Bf16)};
  AttentionTask task;

  OneRow() {
    task.kernel.q = rows.as<kernels::Bf16>().data();
    task.kernel.out = rows.as<kernels::Bf16>().data() + kHeadDim;
    task.kernel.kv = {kv.bytes().data(), 2 * tile, tile, kernels::KvFormat::kBf16};
    task.kernel.kv_heads = 1;
    task.kernel.group = 1;
    task.kernel.head_dim = kHeadDim;
    task.kernel.sequences = &sequence;
    task.next_layer = tile;
  }

  void attend(const TaskRuntime& runtime, std::uint32_t thread) {
    StepShape shape;
    shape.rows = 1;
    shape.sequences = 1;
    shape.attention = kernels::plan_attention({&sequence, 1}, 1, 1, {});
    const CallableRow& row = callable_row(Callable::kAttention);
    ASSERT_EQ(row.refresh(&task, shape), 1U);
    row.run(&task, runtime, 0, thread);
  }
};

TaskRuntime runtime_with(std::vector<kernels::ReadAhead>* ahead) {
  TaskRuntime runtime;
  runtime.kernels = &kernels::kernel_table(kernels::available_isas().back());
  runtime.ahead = ahead->data();
  return runtime;
}

TEST(ReadAhead, AttentionListsTheNextLayerForTheThreadThatAttends) {
  std::vector<kernels::ReadAhead> ahead(2);
  OneRow row;
  row.attend(runtime_with(&ahead), 1);
  EXPECT_EQ(ahead[0].take(1, 1000).count, 0U);
  const kernels::ReadAhead::Lines lines = ahead[1].take(1, 1000);
  EXPECT_EQ(lines.first, row.kv.bytes().data() + 3 * row.tile);
  EXPECT_EQ(lines.count * 64, row.tile);
  EXPECT_EQ(ahead[1].take(1, 1000).count, 0U);
}

TEST(ReadAhead, AttentionOfTheLastLayerForgetsAndListsNothing) {
  std::vector<kernels::ReadAhead> ahead(1);
  OneRow row;
  row.attend(runtime_with(&ahead), 0);
  OneRow last;
  last.task.next_layer = 0;
  last.attend(runtime_with(&ahead), 0);
  EXPECT_EQ(ahead[0].take(1, 1000).count, 0U);
}

TEST(ReadAhead, NobodyHasToKeepOne) {
  TaskRuntime runtime;
  runtime.kernels = &kernels::kernel_table(kernels::Isa::kRef);
  OneRow().attend(runtime, 0);
}

TEST(ReadAhead, ProductsTakeTheListOfTheirThread) {
  const std::vector<kernels::Isa> isas = kernels::available_isas();
  if (std::find(isas.begin(), isas.end(), kernels::Isa::kAvx2) == isas.end()) {
    GTEST_SKIP() << "ref fetches nothing";
  }
  constexpr std::uint32_t kRows = 16;
  constexpr std::uint32_t kColumns = 64;
  constexpr std::uint32_t kDepth = 64;
  constexpr auto kFormat = kernels::WeightFormat::kInt4;
  tensor::AlignedBuffer weights(kernels::weight_bytes(kFormat, kDepth, kColumns));
  tensor::AlignedBuffer codes(kRows * kDepth);
  tensor::AlignedBuffer sums(kRows * kDepth / kernels::kDotBlock * sizeof(std::int32_t));
  tensor::AlignedBuffer scales(kRows * kDepth / kernels::kDotBlock * sizeof(float));
  tensor::AlignedBuffer out(kRows * kColumns * sizeof(float));
  kernels::MatmulLeaf leaf;
  leaf.weight = {kFormat, kDepth, kColumns, weights.bytes().data()};
  MatmulTask task;
  task.kernel.leaves = &leaf;
  task.kernel.leaf_count = 1;
  task.kernel.columns = kColumns;
  task.kernel.out_stride = kColumns;
  task.own.in.codes.codes = codes.as<std::int8_t>().data();
  task.own.in.codes.sums = sums.as<std::int32_t>().data();
  task.own.in.codes.scales = scales.as<float>().data();
  task.own.in.codes.code_stride = kDepth;
  task.own.in.codes.span = kernels::ScaleSpan::kBlock;
  task.own.out = out.as<float>().data();

  std::vector<kernels::ReadAhead> ahead(2);
  TaskRuntime runtime = runtime_with(&ahead);
  runtime.kernels = &kernels::kernel_table(kernels::Isa::kAvx2);
  for (kernels::ReadAhead& each : ahead) {
    each.begin(&task);
    each.add(out.bytes().data(), 64);
  }
  StepShape shape;
  shape.rows = kRows;
  const CallableRow& row = callable_row(Callable::kMatmul);
  ASSERT_EQ(row.refresh(&task, shape), 1U);
  row.run(&task, runtime, 0, 1);
  EXPECT_EQ(ahead[0].take(1, 1000).count, 1U);
  EXPECT_EQ(ahead[1].take(1, 1000).count, 0U);
}

}  // namespace
}  // namespace phalanx::model
