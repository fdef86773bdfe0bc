// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/sequence_table.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/step/limits.h"
#include "phalanx/tensor/arena.h"

namespace phalanx::model {
namespace {

constexpr SequenceTable::Limits kLimits{4, 16, 100};

struct Table {
  Table() : memory(SequenceTable::bytes_for(kLimits)) {
    table = std::make_unique<SequenceTable>(SequenceTable::map(memory.bytes(), kLimits).value());
  }
  tensor::AlignedBuffer memory;
  std::unique_ptr<SequenceTable> table;
};

const std::vector<TokenId> kTokens = {1, 2, 3, 99};

SequenceSpec spec(std::uint32_t slot = 1) {
  SequenceSpec result;
  result.slot = slot;
  result.sequence = 7;
  result.tokens = kTokens;
  result.prompt_tokens = 3;
  return result;
}

TEST(SequenceTable, KeepsWhatItWasGiven) {
  Table t;
  SequenceSpec given = spec();
  const std::vector<std::pair<TokenId, float>> bias = {{4, 1.5F}, {9, -2.0F}};
  const std::vector<TokenId> masked = {50};
  given.logit_bias = bias;
  given.masked_until_min_tokens = masked;
  given.sampling.seed = 12;
  ASSERT_TRUE(t.table->add(given).has_value());
  const SequenceRow& row = t.table->row(1);
  EXPECT_EQ(row.sequence, 7U);
  EXPECT_EQ(row.length, 4U);
  EXPECT_EQ(row.sampling.seed, 12U);
  EXPECT_EQ(row.bias_count, 2U);
  EXPECT_EQ(row.bias[1], -2.0F);
  EXPECT_EQ(row.masked[0], 50);
  EXPECT_EQ(t.table->tokens(1)[3], 99);
}

TEST(SequenceTable, RefusesWhatIsOutOfRange) {
  Table t;
  const auto refused = [&](auto change, const char* part) {
    SequenceSpec given = spec();
    change(given);
    const Status status = t.table->add(given);
    ASSERT_FALSE(status.has_value()) << part;
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
    EXPECT_NE(status.error().message().find(part), std::string::npos) << status.error().message();
  };
  const std::vector<TokenId> wrong_id = {1, 100};
  const std::vector<TokenId> too_many(17, 1);
  const std::vector<std::pair<TokenId, float>> falling = {{9, 1.0F}, {4, 1.0F}};
  const std::vector<std::pair<TokenId, float>> no_number = {{9, std::nanf("")}};
  const std::vector<std::pair<TokenId, float>> many_biases(step::kMaxLogitBias + 1);
  refused([](SequenceSpec& s) { s.slot = 4; }, "slot");
  refused(
      [&](SequenceSpec& s) {
        s.tokens = wrong_id;
        s.prompt_tokens = 1;
      },
      "token ids from 0 to 99, found 100");
  refused([&](SequenceSpec& s) { s.tokens = too_many; }, "tokens: expected from 1 to 16, found 17");
  refused([](SequenceSpec& s) { s.tokens = {}; }, "tokens");
  refused([](SequenceSpec& s) { s.prompt_tokens = 5; }, "prompt_tokens");
  refused([&](SequenceSpec& s) { s.logit_bias = falling; }, "ascending");
  refused([&](SequenceSpec& s) { s.logit_bias = no_number; }, "logit_bias");
  refused([&](SequenceSpec& s) { s.logit_bias = many_biases; }, "logit_bias");
  refused([](SequenceSpec& s) { s.sampling.temperature = -1.0F; }, "temperature");
  refused([](SequenceSpec& s) { s.sampling.top_p = 0.0F; }, "top_p");
  refused([](SequenceSpec& s) { s.sampling.min_p = 1.5F; }, "min_p");
  refused([](SequenceSpec& s) { s.sampling.repetition_penalty = 0.0F; }, "repetition_penalty");
  refused(
      [](SequenceSpec& s) { s.sampling.presence_penalty = std::numeric_limits<float>::infinity(); },
      "presence_penalty");
  refused([](SequenceSpec& s) { s.sampling.top_logprobs = 21; }, "top_logprobs");
}

TEST(SequenceTable, GivesASlotToOneSequenceAtATime) {
  Table t;
  ASSERT_TRUE(t.table->add(spec()).has_value());
  EXPECT_EQ(t.table->add(spec()).error().code(), Code::kFailedPrecondition);
  ASSERT_TRUE(t.table->remove(1).has_value());
  ASSERT_TRUE(t.table->remove(1).has_value());
  EXPECT_TRUE(t.table->add(spec()).has_value());
  EXPECT_FALSE(t.table->remove(4).has_value());
}

TEST(SequenceTable, RefusesMemoryThatIsTooSmall) {
  const tensor::AlignedBuffer memory(SequenceTable::bytes_for(kLimits));
  EXPECT_FALSE(SequenceTable::map(memory.bytes().first(memory.size() - 64), kLimits).has_value());
  EXPECT_FALSE(SequenceTable::map(memory.bytes().subspan(4), kLimits).has_value());
}

}  // namespace
}  // namespace phalanx::model
