// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/sequence_table.h"

#include <vector>

#include <gtest/gtest.h>

#include "support/table_memory.h"

namespace phalanx::step {
namespace {

using testing::TableMemory;

constexpr RankLimits kLimits{70, 4, 64, 8};
constexpr std::uint32_t kVocab = 100;

SequenceAttach given(std::uint32_t slot = 1) {
  SequenceAttach result;
  result.slot = slot;
  result.sequence = 7;
  result.tokens = {1, 2, 3, 99};
  result.prompt_tokens = 3;
  result.choice = 2;
  result.sampling.seed = 12;
  result.sampling.logit_bias = {{4, 1.5F}, {9, -2.0F}};
  result.masked_until_min_tokens = {50};
  result.blocks = {6};
  return result;
}

StepItem item(std::uint32_t start, std::uint32_t count, bool sample) {
  StepItem result;
  result.slot = 1;
  result.sequence = 7;
  result.start = start;
  result.count = count;
  result.sample = sample;
  result.held_blocks = 1;
  return result;
}

TEST(SequenceTable, KeepsWhatItWasGiven) {
  TableMemory table(kLimits, kVocab);
  ASSERT_TRUE(table->attach(given()));
  const SequenceRow& row = table->row(1);
  EXPECT_EQ(row.sequence, 7U);
  EXPECT_EQ(row.prompt_tokens, 3U);
  EXPECT_EQ(row.choice, 2U);
  EXPECT_EQ(row.sampling.seed, 12U);
  ASSERT_EQ(row.bias_count, 2U);
  EXPECT_EQ(row.bias[1].token, 9);
  EXPECT_EQ(row.bias[1].bias, -2.0F);
  ASSERT_EQ(row.masked_count, 1U);
  EXPECT_EQ(row.masked[0], 50);
  const auto tokens = table->tokens(1);
  EXPECT_EQ(std::vector<TokenId>(tokens.begin(), tokens.end()), given().tokens);
  const auto blocks = table->blocks(1);
  EXPECT_EQ(std::vector<std::uint32_t>(blocks.begin(), blocks.end()), given().blocks);
}

// What a replica that knows only the commands expects.
TEST(SequenceTable, DigestsWhatLiesInItsMemory) {
  TableMemory table(kLimits, kVocab);
  TableDigest expected(kLimits.max_num_seqs);
  ASSERT_TRUE(table->attach(given()));
  expected.attach(given());
  EXPECT_EQ(table->hash({}), expected.hash({}));

  for (TokenId token = 10; token < 40; ++token) {
    table->append(1, token);
    expected.append(1, token);
  }
  StepItem next = item(33, 1, true);
  next.blocks = {5};
  ASSERT_TRUE(table->check(next));
  table->extend(next);
  expected.extend(1, next.blocks);
  EXPECT_EQ(table->hash(std::vector{next}), expected.hash(std::vector{next}));

  table->clear();
  EXPECT_EQ(table->hash({}), TableDigest(kLimits.max_num_seqs).hash({}));
}

TEST(SequenceTable, GrowsByExactlyTheBlocksThatAreNew) {
  TableMemory table(kLimits, kVocab);
  SequenceAttach attach = given();
  attach.tokens.assign(40, 1);
  ASSERT_TRUE(table->attach(attach));
  const auto fits = [&](std::uint32_t held, std::vector<std::uint32_t> blocks) {
    StepItem step = item(32, 8, true);
    step.held_blocks = held;
    step.blocks = std::move(blocks);
    return table->check(step).has_value();
  };
  EXPECT_TRUE(fits(1, {2}));
  EXPECT_TRUE(fits(1, {2, 3})) << "room for later";
  EXPECT_FALSE(fits(0, {6, 2})) << "said before";
  EXPECT_FALSE(fits(2, {3})) << "one was lost on the way";
  EXPECT_FALSE(fits(1, {})) << "too few";
  EXPECT_FALSE(fits(1, {8})) << "there is no such block";
  EXPECT_FALSE(fits(1, {2, 3, 4})) << "beyond the longest sequence";

  StepItem step = item(32, 8, true);
  step.blocks = {2};
  table->extend(step);
  EXPECT_FALSE(table->check(step)) << "a step that is repeated needs the table of before";
  step.held_blocks = 2;
  step.blocks = {};
  EXPECT_TRUE(table->check(step));
}

TEST(SequenceTable, RefusesWhatIsOutOfRange) {
  TableMemory table(kLimits, kVocab);
  const std::uint64_t empty = table->hash({});
  const auto refused = [&](auto change, const char* name) {
    SequenceAttach changed = given();
    change(changed);
    const Status status = table->attach(changed);
    ASSERT_FALSE(status) << name;
    EXPECT_EQ(status.error().code(), Code::kFailedPrecondition) << name;
    EXPECT_EQ(table->hash({}), empty) << name;
  };
  refused([](SequenceAttach& s) { s.slot = 4; }, "slot");
  refused([](SequenceAttach& s) { s.sequence = 0; }, "sequence");
  refused([](SequenceAttach& s) { s.tokens[1] = 100; }, "token beyond the vocabulary");
  refused([](SequenceAttach& s) { s.tokens[1] = -1; }, "negative token");
  refused([](SequenceAttach& s) { s.tokens.assign(71, 1); }, "too long");
  refused([](SequenceAttach& s) { s.tokens.clear(); }, "no tokens");
  refused([](SequenceAttach& s) { s.prompt_tokens = 5; }, "prompt_tokens");
  refused([](SequenceAttach& s) { s.prompt_tokens = 0; }, "no prompt");
  refused([](SequenceAttach& s) { s.sampling.logit_bias.resize(kMaxLogitBias + 1); }, "biases");
  refused(
      [](SequenceAttach& s) {
        s.sampling.logit_bias = {{100, 1.0F}};
      },
      "bias beyond the vocabulary");
  refused([](SequenceAttach& s) { s.masked_until_min_tokens.resize(kMaxStopTokens + 1); }, "masks");
  refused([](SequenceAttach& s) { s.masked_until_min_tokens = {100}; }, "mask");
  refused([](SequenceAttach& s) { s.blocks = {8}; }, "block");
  refused([](SequenceAttach& s) { s.blocks.assign(4, 1); }, "blocks");
}

TEST(SequenceTable, RefusesItemsThatItCannotServe) {
  TableMemory table(kLimits, kVocab);
  ASSERT_TRUE(table->attach(given()));
  EXPECT_TRUE(table->check(item(0, 4, true)));
  EXPECT_TRUE(table->check(item(0, 2, false)));
  StepItem wrong = item(0, 4, true);
  wrong.sequence = 8;
  EXPECT_FALSE(table->check(wrong));
  wrong = item(0, 4, true);
  wrong.slot = 9;
  EXPECT_FALSE(table->check(wrong));
  EXPECT_FALSE(table->check(item(0, 0, false))) << "no tokens";
  EXPECT_FALSE(table->check(item(0, 5, false))) << "beyond what is known";
  EXPECT_FALSE(table->check(item(0xFFFFFFFF, 4, false))) << "overflow";
  EXPECT_FALSE(table->check(item(0, 3, true))) << "sampling midway";
}

TEST(SequenceTable, GivesASlotToOneSequenceAtATime) {
  TableMemory table(kLimits, kVocab);
  ASSERT_TRUE(table->attach(given()));
  EXPECT_EQ(table->attach(given()).error().code(), Code::kFailedPrecondition);
  ASSERT_TRUE(table->detach(1));
  ASSERT_TRUE(table->detach(1));
  EXPECT_TRUE(table->attach(given()));
  EXPECT_FALSE(table->detach(4));
}

TEST(SequenceTable, RefusesMemoryThatIsTooSmall) {
  std::vector<std::uint64_t> words((SequenceTable::bytes_for(kLimits) + 7) / 8);
  const auto bytes = std::as_writable_bytes(std::span(words));
  EXPECT_FALSE(SequenceTable::map(bytes.first(bytes.size() - 64), kLimits, kVocab));
  EXPECT_FALSE(SequenceTable::map(bytes.subspan(4), kLimits, kVocab));
}

}  // namespace
}  // namespace phalanx::step
