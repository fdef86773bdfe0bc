// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/program.h"

#include <set>

#include <gtest/gtest.h>

#include "phalanx/kernels/rows.h"
#include "phalanx/model/callables.h"
#include "phalanx/tensor/arena.h"

namespace phalanx::model {
namespace {

using kernels::EmbeddingArgs;

HeadNormRopeTask rotation_args() {
  HeadNormRopeTask task;
  kernels::HeadNormRopeArgs& args = task.kernel;
  args.x_stride = args.out_stride = args.head_dim = 16;
  args.rope_stride = 8;
  args.heads = 1;
  return task;
}

// A rotation reads two buffers and writes one: enough to build any dependence.
kernels::HeadNormRopeArgs* rotation(
    ProgramRecorder& recorder, const char* name, BufferId x, BufferId angles, BufferId out) {
  auto* task = &recorder.task(Callable::kHeadNormRope, name, rotation_args())->kernel;
  recorder.link(x, Access::kIn, &task->x);
  recorder.link(angles, Access::kIn, &task->cos);
  recorder.link(angles, Access::kIn, &task->sin);
  recorder.link(out, Access::kOut, &task->out);
  return task;
}

TEST(Program, SharesAStageBetweenTasksThatDoNotDepend) {
  ProgramRecorder recorder;
  const BufferId in = recorder.resident("in", 4096);
  const BufferId a = recorder.scratch("a", 4096);
  const BufferId b = recorder.scratch("b", 4096);
  const BufferId c = recorder.scratch("c", 4096);
  rotation(recorder, "one", in, in, a);
  rotation(recorder, "two", in, in, b);
  rotation(recorder, "three", a, b, c);
  const auto program = std::move(recorder).finish();
  ASSERT_TRUE(program.has_value()) << program.error().to_string();
  ASSERT_EQ(program->stages().size(), 2U);
  EXPECT_EQ(program->stages()[0].name, "one + two");
  EXPECT_EQ(program->stages()[1].name, "three");
}

TEST(Program, ReusesScratchOfValuesThatHaveDied) {
  ProgramRecorder recorder;
  const BufferId in = recorder.resident("in", 4096);
  const BufferId a = recorder.scratch("a", 4096);
  const BufferId b = recorder.scratch("b", 4096);
  rotation(recorder, "0", in, in, a);
  for (int i = 1; i < 10; ++i) {
    rotation(recorder, "n", i % 2 == 1 ? a : b, in, i % 2 == 1 ? b : a);
  }
  const auto program = std::move(recorder).finish();
  ASSERT_TRUE(program.has_value());
  EXPECT_EQ(program->stages().size(), 10U);
  EXPECT_EQ(program->scratch_bytes(), 2U * 4096U) << "two values live at a time";
}

TEST(Program, KeepsValuesApartThatLiveTogether) {
  ProgramRecorder recorder;
  const BufferId in = recorder.resident("in", 4096);
  const BufferId a = recorder.scratch("a", 1000);
  const BufferId b = recorder.scratch("b", 2000);
  const BufferId c = recorder.scratch("c", 3000);
  auto* first = rotation(recorder, "a", in, in, a);
  auto* second = rotation(recorder, "b", a, in, b);
  auto* third = rotation(recorder, "c", a, b, c);
  auto program = std::move(recorder).finish();
  ASSERT_TRUE(program.has_value());
  tensor::AlignedBuffer scratch(program->scratch_bytes());
  ASSERT_TRUE(program->bind_scratch(scratch.bytes()).has_value());
  const auto place = [&](const tensor::Bf16* data) {
    return reinterpret_cast<const std::byte*>(data) - scratch.bytes().data();
  };
  EXPECT_EQ(reinterpret_cast<const void*>(second->x), first->out);
  EXPECT_EQ(reinterpret_cast<const void*>(third->cos), second->out);
  const auto apart =
      [](std::ptrdiff_t x, std::ptrdiff_t x_bytes, std::ptrdiff_t y, std::ptrdiff_t y_bytes) {
        return x + x_bytes <= y || y + y_bytes <= x;
      };
  EXPECT_TRUE(apart(place(first->out), 1000, place(second->out), 2000));
  EXPECT_TRUE(apart(place(first->out), 1000, place(third->out), 3000));
  EXPECT_TRUE(apart(place(second->out), 2000, place(third->out), 3000));
}

TEST(Program, RefusesScratchThatNobodyWrote) {
  ProgramRecorder recorder;
  const BufferId in = recorder.resident("in", 4096);
  const BufferId ghost = recorder.scratch("ghost", 4096);
  const BufferId out = recorder.scratch("out", 4096);
  rotation(recorder, "reader", in, ghost, out);
  const auto program = std::move(recorder).finish();
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code(), Code::kInternal);
  EXPECT_NE(program.error().message().find("ghost"), std::string::npos);
  EXPECT_NE(program.error().message().find("reader"), std::string::npos);
}

TEST(Program, RefusesArgumentsOfAnotherCallable) {
  ProgramRecorder recorder;
  recorder.task(Callable::kHeadNormRope, "odd", EmbeddingArgs{});
  EXPECT_EQ(std::move(recorder).finish().error().code(), Code::kInternal);
}

TEST(Program, RefusesWeightsThatDoNotFit) {
  ProgramRecorder recorder;
  EmbeddingArgs args;
  args.table = {.rows = 64, .columns = 100};
  args.x_stride = 32;
  recorder.task(Callable::kEmbedding, "narrow", args);
  const auto program = std::move(recorder).finish();
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code(), Code::kInternal);
  EXPECT_NE(program.error().message().find("narrow"), std::string::npos);
  EXPECT_NE(program.error().message().find("at most 32 numbers, found 64"), std::string::npos);
}

TEST(Program, RunsOnlyWithEveryBufferThere) {
  ProgramRecorder recorder;
  const BufferId in = recorder.resident("in", 4096);
  const BufferId out = recorder.resident("out", 4096);
  auto* task = &recorder.task(Callable::kHeadNormRope, "s", rotation_args())->kernel;
  recorder.link(in, Access::kIn, &task->x);
  recorder.link(in, Access::kIn, &task->cos, 64);
  recorder.link(in, Access::kIn, &task->sin, 128);
  recorder.link(out, Access::kOutExisting, &task->out);
  auto program = std::move(recorder).finish();
  ASSERT_TRUE(program.has_value());
  auto team = kernels::ThreadTeam::create_unpinned(1);
  ASSERT_TRUE(team.has_value());
  StepShape shape;
  shape.rows = 1;
  TaskRuntime runtime;
  runtime.kernels = &kernels::kernel_table(kernels::Isa::kRef);
  const Error unbound = program->run(shape, **team, runtime, {}).error();
  EXPECT_EQ(unbound.code(), Code::kFailedPrecondition);
  EXPECT_NE(unbound.message().find("\"in\""), std::string::npos) << unbound.message();

  tensor::AlignedBuffer in_memory(4096);
  tensor::AlignedBuffer out_memory(4096);
  EXPECT_FALSE(program->bind(in, in_memory.bytes().first(100)).has_value());
  EXPECT_FALSE(program->bind(in, in_memory.bytes().subspan(4)).has_value());
  ASSERT_TRUE(program->bind(in, in_memory.bytes()).has_value());
  ASSERT_TRUE(program->bind(out, out_memory.bytes()).has_value());
  ASSERT_TRUE(program->bind_scratch({}).has_value());
  in_memory.as<float>()[0] = 100.0F;
  in_memory.as<float>()[16] = 3.0F;
  std::vector<std::uint32_t> stages;
  ProgramObserver observer;
  observer.context = &stages;
  observer.stage_begins = [](void* context, std::uint32_t stage) {
    static_cast<std::vector<std::uint32_t>*>(context)->push_back(stage);
  };
  const std::uint64_t prepared = program->preparations();
  ASSERT_TRUE(program->run(shape, **team, runtime, observer).has_value());
  EXPECT_EQ(tensor::to_float(out_memory.as<tensor::Bf16>()[0]), 300.0F);
  EXPECT_EQ(stages, std::vector<std::uint32_t>{0});
  EXPECT_EQ(program->preparations(), prepared);
}

#ifndef NDEBUG
TEST(Program, PoisonsScratchThatHasDied) {
  ProgramRecorder recorder;
  const BufferId in = recorder.resident("in", 4096);
  const BufferId a = recorder.scratch("a", 1024);
  const BufferId b = recorder.scratch("b", 1024);
  rotation(recorder, "one", in, in, a);
  rotation(recorder, "two", a, in, b);
  auto program = std::move(recorder).finish();
  ASSERT_TRUE(program.has_value());
  tensor::AlignedBuffer memory(4096);
  tensor::AlignedBuffer scratch(program->scratch_bytes());
  ASSERT_TRUE(program->bind(in, memory.bytes()).has_value());
  ASSERT_TRUE(program->bind_scratch(scratch.bytes()).has_value());
  auto team = kernels::ThreadTeam::create_unpinned(1);
  StepShape shape;
  shape.rows = 1;
  TaskRuntime runtime;
  runtime.kernels = &kernels::kernel_table(kernels::Isa::kRef);
  ASSERT_TRUE(program->run(shape, **team, runtime, {}).has_value());
  for (const std::byte byte : scratch.bytes()) {
    ASSERT_EQ(byte, std::byte{0xFF});
  }
}
#endif

TEST(Callables, HaveATableWithAHash) {
  std::set<std::string_view> names;
  for (std::uint16_t i = 0; i < static_cast<std::uint16_t>(Callable::kCallableCount); ++i) {
    const CallableRow& row = callable_row(static_cast<Callable>(i));
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_NE(row.refresh, nullptr);
    EXPECT_NE(row.run == nullptr, row.meet == nullptr) << row.name;
  }
  EXPECT_NE(callables_hash(), 0U);
}

}  // namespace
}  // namespace phalanx::model
