// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <limits>

#include <gtest/gtest.h>

#include "phalanx/wire/frame_header.h"

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

TEST(Codec, GivesBackEveryRecordToAFront) {
  for (std::uint32_t seed = 0; seed < kRounds; ++seed) {
    const LeaderToFront record = RandomMessages(seed).leader_to_front();
    expect_same(decode_leader_to_front(encode(record)), record, seed);
  }
}

TEST(Codec, GivesBackEveryRecordOfAFront) {
  for (std::uint32_t seed = 0; seed < kRounds; ++seed) {
    const FrontToLeader record = RandomMessages(seed).front_to_leader();
    expect_same(decode_front_to_leader(encode(record)), record, seed);
  }
}

TEST(Codec, GivesBackEveryRequestOfAnOperator) {
  for (std::uint32_t seed = 0; seed < kRounds; ++seed) {
    const AdminRequest request = RandomMessages(seed).admin_request();
    expect_same(decode_admin_request(encode(request)), request, seed);
  }
}

TEST(Codec, GivesBackEveryAnswerToAnOperator) {
  for (std::uint32_t seed = 0; seed < kRounds; ++seed) {
    const AdminAnswer answer = RandomMessages(seed).admin_answer();
    expect_same(decode_admin_answer(encode(answer)), answer, seed);
  }
}

TEST(Codec, GivesBackEveryDumpOfARequest) {
  for (std::uint32_t seed = 0; seed < kRounds; ++seed) {
    const PoisonedRequest request = RandomMessages(seed).poisoned_request();
    expect_same(decode_poisoned_request(encode(request)), request, seed);
  }
}

// A reader gives up beyond that.
TEST(Codec, FitsTheLargestDumpIntoItsFile) {
  PoisonedRequest request;
  request.error = std::string(kMaxErrorBytes, 'x');
  for (std::size_t i = 0; i < step::kMaxLogitBias; ++i) {
    request.sampling.logit_bias.emplace_back(static_cast<TokenId>(i), 1.0F);
  }
  request.prompt_ids.resize(step::kMaxPromptTokens);
  request.produced_ids.resize(step::kMaxPromptTokens);
  EXPECT_LE(encode(request).size(), kMaxDumpBytes);
}

// The leader may not fail over what its processes say of themselves.
TEST(Codec, FitsTheStatusOfTheLargestServerIntoAnAnswer) {
  const std::string text(std::size_t{1} << 20, 'x');
  ServerStatus status;
  status.fronts.resize(kMaxFronts);
  status.replicas.resize(kMaxReplicas);
  for (ShownReplica& replica : status.replicas) {
    replica.slot.last_error = text;
    replica.report.ranks.resize(kMaxRanks);
    replica.rank_wrappers.resize(kMaxRanks);
    for (std::uint32_t rank = 0; rank < kMaxRanks; ++rank) {
      replica.report.ranks[rank].last_error = std::string(kMaxErrorBytes, 'x');
      replica.report.ranks[rank].allocations = ~std::uint64_t{0};
      replica.rank_wrappers[rank].command = std::string(kMaxErrorBytes, 'x');
    }
  }
  fit(&status);
  const AdminAnswer answer(status);
  const std::string bytes = encode(answer);
  EXPECT_LE(bytes.size(), kMaxAdminAnswerBytes);
  expect_same(decode_admin_answer(bytes), answer, 0);
}

TEST(Codec, CutsNothingOfTheStatusOfASmallServer) {
  ServerStatus status;
  status.replicas.resize(2);
  status.replicas[0].slot.last_error = std::string(kMaxErrorBytes, 'x');
  const ServerStatus before = status;
  fit(&status);
  EXPECT_EQ(status, before);
}

TEST(FrameHeader, TellsTheBytesOfItsFrame) {
  const std::string bytes = with_header("frame");
  ASSERT_EQ(bytes.size(), kFrameHeaderBytes + 5);
  const auto size = frame_bytes_of(bytes.substr(0, kFrameHeaderBytes), 5);
  ASSERT_TRUE(size) << size.error().message();
  EXPECT_EQ(*size, 5U);
  for (std::size_t i = 1; i <= kFrameHeaderBytes; ++i) {
    EXPECT_TRUE(begins_as_header(bytes.substr(0, i))) << i;
  }
}

TEST(FrameHeader, IsRefusedByNameOfWhatIsWrong) {
  std::string header = with_header("frame").substr(0, kFrameHeaderBytes);
  EXPECT_EQ(frame_bytes_of(header, 4).error().code(), Code::kInvalidArgument);
  EXPECT_FALSE(frame_bytes_of("", 5));
  EXPECT_FALSE(frame_bytes_of("{\"command\":", 5));
  EXPECT_FALSE(begins_as_header("{"));
  header[4] = static_cast<char>(kProtocolVersion + 1);
  const auto other = frame_bytes_of(header, 5);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Code::kFailedPrecondition);
  EXPECT_NE(other.error().message().find("of version " + std::to_string(kProtocolVersion + 1)),
            std::string::npos)
      << other.error().message();
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

// proto/leader-front.md: senders look at the bytes of FrontEvents and of nothing else.
TEST(Codec, FitsTheLargestRecordsOfAFrontIntoAPacket) {
  constexpr std::size_t kPacketBytes = std::size_t{128} << 10;
  constexpr RequestKey kKey{~std::uint64_t{0}, ~0U};
  const std::string name(kMaxNameBytes, 'x');
  const std::string error(kMaxErrorBytes, 'x');
  step::SamplingParams sampling;
  for (std::size_t i = 0; i < step::kMaxLogitBias; ++i) {
    sampling.logit_bias.emplace_back(static_cast<TokenId>(i), 1.0F);
  }
  const FrontEvent event{.key = kKey,
                         .prompt = ~0U,
                         .choice = ~0U,
                         .position = ~0U,
                         .token = 1 << 30,
                         .logprob = -1.0F,
                         .top_logprobs = std::vector<step::TokenLogprob>(step::kMaxTopLogprobs),
                         .cached_tokens = ~0U,
                         .finish = step::FinishReason::kError,
                         .error_code = ~0U,
                         .error_message = error};
  const auto expect_fits = [&](const auto& record, const auto& decode) {
    const std::string bytes = encode(record);
    EXPECT_LE(bytes.size(), kPacketBytes);
    expect_same(decode(bytes), record, 0);
  };
  for (const LeaderToFront& record :
       {LeaderToFront(Connect{.connection = ~std::uint64_t{0}, .peer = name, .refusal = error}),
        LeaderToFront(Admitted{.key = kKey, .code = ~0U, .message = error}),
        LeaderToFront(FrontEvents{{event}}),
        LeaderToFront(Report{.query = ~std::uint64_t{0},
        .status = 599,
        .text = std::string(kMaxReportBytes, 'x'),
        .last = true})}) {
    expect_fits(record, decode_leader_to_front);
  }
  for (const FrontToLeader& record :
       {FrontToLeader(PromptPart{.key = kKey, .ids = std::vector<TokenId>(kMaxPromptPart)}),
        FrontToLeader(Generate{.key = kKey,
        .choices = kMaxFrontChoices,
        .sampling = sampling,
        .stop = {.max_tokens = ~0U, .stop_token_ids = std::vector<TokenId>(step::kMaxStopTokens)},
        .cache_salt = std::string(kMaxSaltBytes, 'x')}),
        FrontToLeader(End{.key = kKey, .outcome = name, .error = error, .status = 599})}) {
    expect_fits(record, decode_front_to_leader);
  }
  expect_fits(ControlRecord(FrontBootstrap{.model_name = name,
                                           .model_root = std::string(kMaxPathBytes, 'x'),
                                           .default_sampling = sampling,
                                           .end_tokens = std::vector<TokenId>(step::kMaxEndTokens),
                                           .allowed_hosts = std::string(kMaxListBytes, 'x'),
                                           .allowed_origins = std::string(kMaxListBytes, 'x')}),
              decode_control_record);
  expect_fits(ControlRecord(ServerPlan{.model_config = std::string(kMaxConfigBytes, 'x'),
                                       .model_name = name,
                                       .model_summary = name,
                                       .weight_summary = name,
                                       .isa = name,
                                       .default_sampling = sampling,
                                       .end_tokens = std::vector<TokenId>(step::kMaxEndTokens),
                                       .tokenizer_bytes = ~std::uint64_t{0},
                                       .memory = std::vector<std::pair<std::string, std::uint64_t>>(
                                           kMaxRegions, {name, 1})}),
              decode_control_record);
  // What the codec takes beyond that.
  const LeaderToFront many = FrontEvents{std::vector<FrontEvent>(kMaxFrontEvents, event)};
  EXPECT_GT(encode(many).size(), kPacketBytes);
  expect_same(decode_leader_to_front(encode(many)), many, 0);
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
