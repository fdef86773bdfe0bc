// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/rank_loop.h"

#include <new>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"

#include "support/cell_runner.h"
#include "support/table_memory.h"

namespace phalanx::engine {
namespace {

using testing::CellMemory;
using testing::CellRunner;
using testing::reference_token;
using wire::RankOp;

// Four sequences of 128 tokens, steps of 32, 16 blocks.
constexpr step::RankLimits kLimits{128, 4, 32, 16};

RankLoopOptions small() {
  return {RankId(1), 4321, 99};
}

class RankLoopTest : public ::testing::Test {
 protected:
  wire::RankReply say(RankOp op, std::uint32_t epoch = 1, std::uint64_t step = 1) {
    wire::RankCommand command;
    command.op = op;
    return say(command, epoch, step);
  }
  wire::RankReply say(wire::RankCommand command, std::uint32_t epoch, std::uint64_t step) {
    command.epoch = Epoch(epoch);
    command.step = StepId(step);
    return loop.handle(command);
  }
  void form(std::uint32_t epoch = 1, std::uint64_t step = 1) {
    for (const RankOp op : {RankOp::kHello, RankOp::kInit, RankOp::kSanity, RankOp::kAttach}) {
      ASSERT_EQ(say(op, epoch, step).code, 0U);
    }
  }
  static step::SequenceAttach sequence(std::uint32_t slot, std::uint32_t tokens) {
    step::SequenceAttach attach;
    attach.slot = slot;
    attach.sequence = 10 + slot;
    attach.tokens.assign(tokens, 3);
    attach.prompt_tokens = tokens;
    return attach;
  }
  static wire::RankCommand step_of(const step::SequenceAttach& attach) {
    wire::RankCommand command;
    command.op = RankOp::kStep;
    command.attach = {attach};
    step::StepItem item;
    item.slot = attach.slot;
    item.sequence = attach.sequence;
    item.count = static_cast<std::uint32_t>(attach.tokens.size());
    item.sample = true;
    item.held_blocks = static_cast<std::uint32_t>(attach.blocks.size());
    item.blocks = {0, 1, 2, 3};
    command.items = {item};
    return command;
  }
  static Code code(const wire::RankReply& reply) { return static_cast<Code>(reply.code); }

  CellMemory memory{16};
  CellRunner runner{memory, 50};
  std::vector<step::SampleResult> rows = std::vector<step::SampleResult>(8);
  ResultRing ring{rows, 4};
  testing::TableMemory table{kLimits, 50};
  RankLoop loop{small(), *table, runner, ring};
};

TEST_F(RankLoopTest, SaysWhoItIs) {
  runner.identity_value = {11, 22};
  const wire::RankReply reply = say(RankOp::kHello, 3, 7);
  EXPECT_EQ(reply.code, 0U);
  EXPECT_EQ(reply.epoch, Epoch(3));
  EXPECT_EQ(reply.step, StepId(7));
  EXPECT_EQ(reply.rank, RankId(1));
  EXPECT_EQ(reply.pid, 4321);
  EXPECT_EQ(reply.secret, 99U);
  EXPECT_EQ(reply.callables_hash, 11U);
  EXPECT_EQ(reply.numerics_fingerprint, 22U);
}

TEST_F(RankLoopTest, DemandsTheOrderOfForming) {
  EXPECT_EQ(code(say(RankOp::kInit)), Code::kFailedPrecondition);
  ASSERT_EQ(say(RankOp::kHello).code, 0U);
  EXPECT_EQ(code(say(RankOp::kAttach, 1, 2)), Code::kFailedPrecondition) << "not checked yet";
  EXPECT_EQ(say(RankOp::kInit, 1, 2).code, 0U);
  EXPECT_EQ(code(say(RankOp::kStep, 1, 2)), Code::kFailedPrecondition);
}

TEST_F(RankLoopTest, SamplesIntoTheRingAndReportsItsState) {
  form();
  const step::SequenceAttach attach = sequence(2, 5);
  const wire::RankCommand command = step_of(attach);
  const wire::RankReply reply = say(command, 1, 6);
  ASSERT_EQ(reply.code, 0U) << reply.message;
  const auto result = ring.read(StepId(6), 0);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->sequence, 12U);
  EXPECT_EQ(result->token, reference_token(attach.tokens, 0, 0, 50));
  EXPECT_FALSE(ring.read(StepId(4), 0)) << "another step of the same place";

  step::TableDigest expected(4);
  expected.attach(attach);
  expected.extend(2, command.items[0].blocks);
  expected.append(2, result->token);
  EXPECT_EQ(reply.state_hash, expected.hash(command.items));
}

TEST_F(RankLoopTest, RefusesWhatIsOldOrSaidTwice) {
  form(2);
  ASSERT_EQ(say(step_of(sequence(0, 5)), 2, 6).code, 0U);
  const std::uint64_t before = ring.read(StepId(6), 0)->step;
  EXPECT_EQ(code(say(step_of(sequence(1, 5)), 2, 6)), Code::kFailedPrecondition);
  EXPECT_EQ(code(say(step_of(sequence(1, 5)), 2, 5)), Code::kFailedPrecondition);
  const wire::RankReply old = say(step_of(sequence(1, 5)), 1, 9);
  EXPECT_EQ(code(old), Code::kFailedPrecondition);
  EXPECT_EQ(old.epoch, Epoch(1)) << "answered under the identity it came with";
  EXPECT_EQ(code(say(step_of(sequence(1, 5)), 3, 9)), Code::kFailedPrecondition) << "no hello yet";
  EXPECT_EQ(before, 6U);
  EXPECT_EQ(say(RankOp::kPing, 2, 7).code, 0U) << "it is not broken by that";
}

TEST_F(RankLoopTest, TurnsErrorsAndExceptionsIntoRepliesAndWaitsForANewEpoch) {
  form();
  runner.let_next(aborted("the abort word is up"));
  EXPECT_EQ(code(say(step_of(sequence(0, 5)), 1, 2)), Code::kAborted);
  EXPECT_EQ(code(say(step_of(sequence(1, 5)), 1, 3)), Code::kFailedPrecondition);
  EXPECT_EQ(say(RankOp::kPing, 1, 4).code, 0U);
  form(2, 2);
  EXPECT_EQ(say(step_of(sequence(0, 5)), 2, 2).code, 0U);
}

// A runner in which something below throws.
class ThrowingRunner final : public ModelRunner {
 public:
  Result<RunnerIdentity> identity() override { return RunnerIdentity{}; }
  Status init(Epoch /*epoch*/) override { return ok(); }
  Status sanity() override { return ok(); }
  Status step(const step::SequenceTable& /*table*/,
              std::span<const step::StepItem> /*items*/,
              std::span<step::SampleResult> /*results*/) override {
    if (lacks_memory) {
      throw std::bad_alloc();
    }
    throw std::runtime_error("bad tile");
  }
  Status clear(bool /*zero_kv*/) override { return ok(); }
  RunnerCounters counters() const override { return {}; }

  bool lacks_memory = false;
};

TEST_F(RankLoopTest, AnswersEvenWhenTheRunnerThrows) {
  for (const bool lacks_memory : {false, true}) {
    ThrowingRunner throwing;
    throwing.lacks_memory = lacks_memory;
    RankLoop other(small(), *table, throwing, ring);
    wire::RankCommand command;
    command.epoch = Epoch(1);
    for (const RankOp op : {RankOp::kHello, RankOp::kInit, RankOp::kSanity, RankOp::kAttach}) {
      command.op = op;
      ASSERT_EQ(other.handle(command).code, 0U);
    }
    wire::RankCommand step = step_of(sequence(0, 5));
    step.epoch = Epoch(1);
    const wire::RankReply reply = other.handle(step);
    EXPECT_EQ(code(reply), lacks_memory ? Code::kResourceExhausted : Code::kInternal);
    EXPECT_NE(reply.message.find(lacks_memory ? "out of memory" : "bad tile"), std::string::npos)
        << reply.message;
  }
}

TEST_F(RankLoopTest, BelievesNoStepThatCannotBe) {
  struct Case {
    const char* name;
    void (*spoil)(wire::RankCommand&);
  };
  const Case cases[] = {
      {"slot outside", [](wire::RankCommand& c) { c.items[0].slot = 4; }},
      {"attach outside", [](wire::RankCommand& c) { c.attach[0].slot = 9; }},
      {"detach outside", [](wire::RankCommand& c) { c.detach = {77}; }},
      {"another sequence", [](wire::RankCommand& c) { c.items[0].sequence = 5; }},
      {"past the tokens", [](wire::RankCommand& c) { c.items[0].count = 6; }},
      {"overflowing", [](wire::RankCommand& c) { c.items[0].start = 0xFFFFFFFF; }},
      {"sampling midway", [](wire::RankCommand& c) { c.items[0].count = 4; }},
      {"no tokens", [](wire::RankCommand& c) { c.items[0].count = 0; }},
      {"no blocks", [](wire::RankCommand& c) { c.items[0].blocks.clear(); }},
      {"blocks it has not", [](wire::RankCommand& c) { c.items[0].held_blocks = 1; }},
      {"block outside", [](wire::RankCommand& c) { c.items[0].blocks[0] = 16; }},
      {"slot twice", [](wire::RankCommand& c) { c.items.push_back(c.items[0]); }},
      {"nothing", [](wire::RankCommand& c) { c.items.clear(); }},
      {"slot taken", [](wire::RankCommand& c) { c.attach.push_back(c.attach[0]); }},
      {"no tokens known", [](wire::RankCommand& c) { c.attach[0].tokens.clear(); }},
      {"over-long", [](wire::RankCommand& c) { c.attach[0].tokens.assign(129, 1); }},
  };
  std::uint32_t epoch = 1;
  for (const Case& wrong : cases) {
    form(epoch);
    wire::RankCommand command = step_of(sequence(0, 5));
    wrong.spoil(command);
    EXPECT_EQ(code(say(command, epoch, 2)), Code::kFailedPrecondition) << wrong.name;
    ++epoch;
  }
  form(epoch);
  wire::RankCommand too_many = step_of(sequence(0, 33));
  EXPECT_NE(say(too_many, epoch, 2).message.find("at most 32 fit"), std::string::npos);
}

TEST_F(RankLoopTest, ForgetsEverythingOnAttachAndClear) {
  form();
  ASSERT_EQ(say(step_of(sequence(0, 5)), 1, 2).code, 0U);
  const std::uint64_t empty = step::TableDigest(4).hash({});
  form(2);
  EXPECT_EQ(say(RankOp::kPing, 2, 2).state_hash, empty);
  ASSERT_EQ(say(step_of(sequence(0, 5)), 2, 3).code, 0U);
  memory.cells[3] = 1;
  wire::RankCommand clear;
  clear.op = RankOp::kClear;
  clear.zero_kv = true;
  EXPECT_EQ(say(clear, 2, 4).state_hash, empty);
  EXPECT_EQ(memory.cells[3], 0U);
  EXPECT_EQ(say(step_of(sequence(0, 5)), 2, 5).code, 0U) << "a cleared rank goes on";
}

TEST_F(RankLoopTest, LeavesAfterShutdownAndNotBefore) {
  form();
  EXPECT_FALSE(loop.finished());
  EXPECT_EQ(say(RankOp::kShutdown, 1, 2).code, 0U);
  EXPECT_TRUE(loop.finished());
}

}  // namespace
}  // namespace phalanx::engine
