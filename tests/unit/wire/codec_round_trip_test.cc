// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <limits>

#include <gtest/gtest.h>

#include "random_messages.h"

namespace phalanx::wire {
namespace {

constexpr std::uint32_t kRounds = 400;

template <typename Decoded, typename Message>
void expect_same(const Decoded& decoded, const Message& message, std::uint32_t seed) {
  ASSERT_TRUE(decoded) << "seed " << seed << ": " << decoded.error().to_string();
  EXPECT_TRUE(*decoded == message) << "seed " << seed;
  EXPECT_EQ(encode(*decoded), encode(message)) << "seed " << seed;
}

TEST(Codec, GivesBackEveryLeaderFrame) {
  for (std::uint32_t seed = 0; seed < kRounds; ++seed) {
    const LeaderFrame frame = RandomMessages(seed).leader_frame();
    expect_same(decode_leader_frame(encode(frame)), frame, seed);
  }
}

TEST(Codec, GivesBackEveryReplicaFrame) {
  for (std::uint32_t seed = 0; seed < kRounds; ++seed) {
    const ReplicaFrame frame = RandomMessages(seed).replica_frame();
    expect_same(decode_replica_frame(encode(frame)), frame, seed);
  }
}

TEST(Codec, GivesBackEveryRankCommand) {
  for (std::uint32_t seed = 0; seed < kRounds; ++seed) {
    const RankCommand command = RandomMessages(seed).rank_command();
    expect_same(decode_rank_command(encode(command)), command, seed);
  }
}

TEST(Codec, GivesBackEveryRankReply) {
  for (std::uint32_t seed = 0; seed < kRounds; ++seed) {
    const RankReply reply = RandomMessages(seed).rank_reply();
    expect_same(decode_rank_reply(encode(reply)), reply, seed);
  }
}

TEST(Codec, GivesBackEveryControlRecord) {
  for (std::uint32_t seed = 0; seed < kRounds; ++seed) {
    const ControlRecord record = RandomMessages(seed).control_record();
    expect_same(decode_control_record(encode(record)), record, seed);
  }
}

TEST(Codec, GivesBackMessagesAtTheirLimits) {
  step::SamplingParams sampling;
  sampling.top_logprobs = static_cast<std::int32_t>(step::kMaxTopLogprobs);
  for (std::size_t i = 0; i < step::kMaxLogitBias; ++i) {
    sampling.logit_bias.emplace_back(static_cast<TokenId>(i), 1.0F);
  }
  const LeaderFrame frame{
      .boot = Boot(~0ULL),
      .incarnation = Incarnation(~0U),
      .message = Submit{.key = {},
                        .prompt_ids = std::vector<TokenId>(step::kMaxPromptTokens, 7),
                        .produced_ids = {},
                        .sampling = sampling,
                        .stop = {}}};
  expect_same(decode_leader_frame(encode(frame)), frame, 0);

  RankCommand command;
  command.op = RankOp::kStep;
  command.items.resize(step::kMaxSequencesPerStep, {.slot = 1, .count = 1});
  command.attach.resize(step::kMaxSequencesPerStep);
  command.detach.resize(step::kMaxSequencesPerStep);
  expect_same(decode_rank_command(encode(command)), command, 0);

  ReplicaFrame tokens;
  tokens.message = TokenBatch{.updates = std::vector<TokenUpdate>(step::kMaxSequencesPerStep)};
  expect_same(decode_replica_frame(encode(tokens)), tokens, 0);
}

TEST(Codec, KeepsFloatsBitForBit) {
  for (const float value :
       {0.0F, -0.0F, 1.0F, -2.0F, 1e-42F, -std::numeric_limits<float>::infinity()}) {
    ReplicaFrame frame;
    TokenUpdate update;
    update.logprob = value;
    frame.message = TokenBatch{.step = StepId(1), .updates = {update}};
    const auto decoded = decode_replica_frame(encode(frame));
    ASSERT_TRUE(decoded) << decoded.error().to_string();
    const auto& batch = std::get<TokenBatch>(decoded->message);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(*batch.updates.at(0).logprob),
              std::bit_cast<std::uint32_t>(value));
  }
}

}  // namespace
}  // namespace phalanx::wire
