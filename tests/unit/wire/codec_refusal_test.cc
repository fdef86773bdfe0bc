// SPDX-License-Identifier: Apache-2.0
// What a decoder must not accept. Frames are built with MessagePack by hand, so that they can be
// wrong in ways the encoder cannot be.
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>
#include <msgpack.hpp>

#include "random_messages.h"

namespace phalanx::wire {
namespace {

using Buffer = msgpack::sbuffer;
using Pack = msgpack::packer<Buffer>;

std::string built(const std::function<void(Pack&)>& build) {
  Buffer buffer;
  Pack pack(buffer);
  build(pack);
  return {buffer.data(), buffer.size()};
}

// A stop of the leader, [boot, incarnation, [3, [drain, deadline_ms]]], with one part replaced.
std::string stop(const std::function<void(Pack&)>& kind, const std::function<void(Pack&)>& body) {
  return built([&](Pack& pack) {
    pack.pack_array(3);
    pack.pack(std::uint64_t{1}).pack(std::uint32_t{2});
    pack.pack_array(2);
    kind(pack);
    body(pack);
  });
}

std::string refusal(std::string_view bytes) {
  const auto result = decode_leader_frame(bytes);
  if (result) {
    return "accepted";
  }
  EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
  return result.error().message();
}

const auto kStopKind = [](Pack& pack) { pack.pack(3); };
const auto kStopBody = [](Pack& pack) { pack.pack_array(2).pack(true).pack(9); };

TEST(CodecRefusal, TakesTheStopItVaries) {
  const auto frame = decode_leader_frame(stop(kStopKind, kStopBody));
  ASSERT_TRUE(frame) << frame.error().to_string();
  EXPECT_EQ(*frame, (LeaderFrame{Boot(1), Incarnation(2), StopReplica{true, 9}}));
}

TEST(CodecRefusal, NamesTheFieldWhatWasExpectedAndWhatCame) {
  EXPECT_EQ(refusal(stop([](Pack& pack) { pack.pack(5); }, kStopBody)),
            "leader_frame.message.kind: expected an integer from 1 to 3, came 5");
  EXPECT_EQ(refusal(stop([](Pack& pack) { pack.pack(0); }, kStopBody)),
            "leader_frame.message.kind: expected an integer from 1 to 3, came 0");
  EXPECT_EQ(refusal(stop(kStopKind, [](Pack& pack) { pack.pack_array(2).pack(true).pack(-1); })),
            "leader_frame.message.deadline_ms: expected an unsigned integer, came -1");
  EXPECT_EQ(
      refusal(stop(kStopKind, [](Pack& pack) { pack.pack_array(2).pack(true).pack("x"); })),
      "leader_frame.message.deadline_ms: expected an unsigned integer, came a string of 1 bytes");
  EXPECT_EQ(
      refusal(stop(kStopKind, [](Pack& pack) { pack.pack_array(3).pack(true).pack(1).pack(1); })),
      "leader_frame.message: expected an array of 2, came an array of 3");
  EXPECT_EQ(refusal(stop(kStopKind, [](Pack& pack) { pack.pack_array(0); })),
            "leader_frame.message: expected an array of 2, came an array of 0");
  EXPECT_EQ(refusal(stop(kStopKind, [](Pack& pack) { pack.pack_nil(); })),
            "leader_frame.message: expected an array, came nil");
}

TEST(CodecRefusal, NamesTheElementOfAList) {
  RankCommand command;
  command.items.resize(3, {.slot = 1, .count = 1});
  command.items[2].count = 0;
  const auto result = decode_rank_command(encode(command));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message(),
            "rank_command.items[2].count: expected an integer from 1 to 1048576, came 0");
}

TEST(CodecRefusal, RefusesLengthsThatTheFrameDoesNotHold) {
  for (const std::string_view bytes : {std::string_view("\xdd\xff\xff\xff\xff", 5),
                                       std::string_view("\xdc\xff\xff", 3),
                                       std::string_view("\xdb\xff\xff\xff\xff", 5),
                                       std::string_view("\xc6\xff\xff\xff\xff", 5),
                                       std::string_view("\xdf\xff\xff\xff\xff", 5),
                                       std::string_view("\xc9\xff\xff\xff\xff\x01", 6),
                                       std::string_view("\x93\x01\x02\xdd\x7f\xff\xff\xff", 8),
                                       std::string_view("\xc1", 1),
                                       std::string_view("", 0)}) {
    EXPECT_NE(refusal(bytes), "accepted");
    EXPECT_FALSE(decode_replica_frame(bytes));
    EXPECT_FALSE(decode_rank_command(bytes));
    EXPECT_FALSE(decode_rank_reply(bytes));
    EXPECT_FALSE(decode_control_record(bytes));
    EXPECT_FALSE(decode_leader_to_front(bytes));
    EXPECT_FALSE(decode_front_to_leader(bytes));
    EXPECT_FALSE(decode_admin_request(bytes));
    EXPECT_FALSE(decode_admin_answer(bytes));
    EXPECT_FALSE(decode_poisoned_request(bytes));
  }
}

TEST(CodecRefusal, RefusesEveryTruncation) {
  const auto decode_all = [](const std::string& bytes, const auto& decode) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode(std::string_view(bytes).substr(0, size))) << size;
    }
    EXPECT_TRUE(decode(bytes));
    EXPECT_FALSE(decode(bytes + '\0')) << "trailing byte";
  };
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    RandomMessages random(seed);
    decode_all(encode(random.leader_frame()), decode_leader_frame);
    decode_all(encode(random.replica_frame()), decode_replica_frame);
    decode_all(encode(random.rank_command()), decode_rank_command);
    decode_all(encode(random.rank_reply()), decode_rank_reply);
    decode_all(encode(random.control_record()), decode_control_record);
    decode_all(encode(random.leader_to_front()), decode_leader_to_front);
    decode_all(encode(random.front_to_leader()), decode_front_to_leader);
    decode_all(encode(random.admin_request()), decode_admin_request);
    decode_all(encode(random.admin_answer()), decode_admin_answer);
    decode_all(encode(random.poisoned_request()), decode_poisoned_request);
  }
}

TEST(CodecRefusal, SurvivesEveryFlippedByte) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const std::string bytes = encode(RandomMessages(seed).rank_command());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      for (const char flip : {'\x01', '\x80', '\xff'}) {
        std::string damaged = bytes;
        damaged[i] = static_cast<char>(damaged[i] ^ flip);
        const auto result = decode_rank_command(damaged);
        if (result) {  // then it says something valid, and stays that
          const auto again = decode_rank_command(encode(*result));
          ASSERT_TRUE(again);
          EXPECT_EQ(*again, *result);
        }
      }
    }
  }
}

TEST(CodecRefusal, RefusesObjectsTheProtocolHasNoUseFor) {
  EXPECT_NE(refusal(stop(kStopKind, [](Pack& pack) { pack.pack_map(1).pack(1).pack(2); })),
            "accepted");
  EXPECT_NE(refusal(stop(kStopKind, [](Pack& pack) { pack.pack_array(2).pack(true).pack(1.5); })),
            "accepted");
  EXPECT_NE(refusal(std::string("\x93\x01\x02\xd4\x01\x00", 6)), "accepted");
  std::string deep(1000, '\x91');
  EXPECT_EQ(refusal(deep + '\x01'), "leader_frame: arrays nested deeper than 8");
}

TEST(CodecRefusal, RefusesFramesBeyondTheLimit) {
  const std::string bytes(kMaxFrameBytes + 1, '\0');
  EXPECT_NE(refusal(bytes).find("at most"), std::string::npos);
}

TEST(CodecRefusal, BoundsTheObjectsOfAFrame) {
  // 64 arrays of 65,535 elements: 4 MB of frame that would become 100 MB of objects.
  std::string bytes("\xdc\x00\x40", 3);
  for (int i = 0; i < 64; ++i) {
    bytes += std::string("\xdc\xff\xff", 3) + std::string(0xFFFF, '\x01');
  }
  EXPECT_NE(refusal(bytes).find("objects"), std::string::npos);
}

LeaderFrame submit_with(const std::function<void(Submit&)>& change) {
  Submit submit{.key = {}, .prompt_ids = {1, 2, 3}, .produced_ids = {}, .sampling = {}, .stop = {}};
  change(submit);
  return {Boot(1), Incarnation(1), submit};
}

TEST(CodecRefusal, RefusesValuesOutOfRange) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  using Change = std::function<void(Submit&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"temperature", [](Submit& s) { s.sampling.temperature = -0.1F; }},
      {"temperature", [&](Submit& s) { s.sampling.temperature = kNan; }},
      {"temperature", [&](Submit& s) { s.sampling.temperature = kInfinity; }},
      {"top_k", [](Submit& s) { s.sampling.top_k = -1; }},
      {"top_p", [](Submit& s) { s.sampling.top_p = 0.0F; }},
      {"top_p", [](Submit& s) { s.sampling.top_p = 1e-40F; }},
      {"top_p", [](Submit& s) { s.sampling.top_p = 1.5F; }},
      {"min_p", [](Submit& s) { s.sampling.min_p = 1.5F; }},
      {"repetition_penalty", [](Submit& s) { s.sampling.repetition_penalty = 0.0F; }},
      {"repetition_penalty", [](Submit& s) { s.sampling.repetition_penalty = 1.2e-38F; }},
      {"repetition_penalty", [](Submit& s) { s.sampling.repetition_penalty = 101.0F; }},
      {"presence_penalty", [](Submit& s) { s.sampling.presence_penalty = 2.1F; }},
      {"frequency_penalty", [](Submit& s) { s.sampling.frequency_penalty = -2.1F; }},
      {"top_logprobs", [](Submit& s) { s.sampling.top_logprobs = 21; }},
      {"top_logprobs", [](Submit& s) { s.sampling.top_logprobs = -2; }},
      {"logit_bias",
       [&](Submit& s) {
         s.sampling.logit_bias = {{1, kNan}};
       }},
      {"logit_bias",
       [&](Submit& s) {
         s.sampling.logit_bias = {{1, kInfinity}};
       }},
      {"logit_bias",
       [](Submit& s) {
         s.sampling.logit_bias = {{-1, 1.0F}};
       }},
      {"logit_bias",
       [](Submit& s) {
         s.sampling.logit_bias = {{2, 1.0F}, {2, 1.0F}};
       }},
      {"logit_bias", [](Submit& s) { s.sampling.logit_bias.resize(step::kMaxLogitBias + 1); }},
      {"prompt_ids", [](Submit& s) { s.prompt_ids.clear(); }},
      {"prompt_ids", [](Submit& s) { s.prompt_ids[1] = -5; }},
      {"prompt_ids", [](Submit& s) { s.prompt_ids.resize(step::kMaxPromptTokens + 1); }},
      {"max_tokens", [](Submit& s) { s.stop.max_tokens = 0; }},
      {"stop_token_ids",
       [](Submit& s) {
         s.stop.stop_token_ids = {3, 2};
       }},
      {"stop_token_ids", [](Submit& s) { s.stop.stop_token_ids.resize(step::kMaxStopTokens + 1); }},
  };
  for (const auto& [field, change] : changes) {
    const std::string message = refusal(encode(submit_with(change)));
    EXPECT_NE(message.find(field), std::string::npos) << field << ": " << message;
  }
}

TEST(CodecRefusal, RefusesUnknownEnumerators) {
  RankCommand command;
  command.op = static_cast<RankOp>(9);
  EXPECT_FALSE(decode_rank_command(encode(command)));
  command.op = static_cast<RankOp>(0);
  EXPECT_FALSE(decode_rank_command(encode(command)));
  ReplicaFrame frame;
  TokenUpdate update;
  update.finish = static_cast<step::FinishReason>(5);
  frame.message = TokenBatch{.updates = {update}};
  EXPECT_FALSE(decode_replica_frame(encode(frame)));
}

TEST(CodecRefusal, RefusesContradictions) {
  RankCommand command;
  command.attach.resize(1);
  command.attach[0].prompt_tokens = 1;  // of no tokens
  EXPECT_FALSE(decode_rank_command(encode(command)));
  RankReply reply;
  reply.rank = RankId(kMaxRanks);
  EXPECT_FALSE(decode_rank_reply(encode(reply)));
  RankBootstrap record;
  record.plan.tp = 2;
  record.rank = RankId(2);
  EXPECT_FALSE(decode_control_record(encode(ControlRecord(record))));
  reply.rank = RankId(0);
  reply.message = std::string(kMaxErrorBytes + 1, 'x');
  EXPECT_FALSE(decode_rank_reply(encode(reply)));
}

// What the decoder says of it; check() accepts and refuses the same.
template <typename Record, typename Decode>
std::string refused_field(const Record& record, Decode decode) {
  const auto result = decode(encode(record));
  const Status checked = check(record);
  EXPECT_EQ(bool(result), bool(checked));
  return result ? "accepted" : result.error().message();
}

constexpr RequestKey kRequest{3, 2};

TEST(CodecRefusal, RefusesOfALeaderToAFrontWhatItMayNotSay) {
  const auto events = [](FrontEvent event) {
    event.key = event.key == RequestKey{} ? kRequest : event.key;
    return FrontEvents{{std::move(event)}};
  };
  const std::string long_name(kMaxNameBytes + 1, 'x');
  const std::string long_error(kMaxErrorBytes + 1, 'x');
  constexpr auto kError = step::FinishReason::kError;
  const std::vector<std::pair<std::string, LeaderToFront>> records = {
      {"record.connection", Connect{.connection = 0}},
      {"record.peer", Connect{.connection = 1, .peer = long_name}},
      {"record.refusal", Connect{.connection = 1, .refusal = long_error}},
      {"record.place", Connect{.connection = 1, .place = kMaxJournalPlaces}},
      {"record.left_at", Connect{.connection = 1, .left_at = kMaxJournalPlaces}},
      {"record.failure", Connect{.connection = 1, .failure = long_error}},
      {"record.key.connection", Admitted{.key = {0, 1}}},
      {"record.key.ordinal", Admitted{.key = {1, 0}}},
      {"record.message", Admitted{.key = kRequest, .message = long_error}},
      {"record.key.connection", History{.key = {0, 1}}},
      {"record.tokens", History{.key = kRequest, .marks = {1, 2}, .tokens = {7}}},
      {"record.marks",
       History{.key = kRequest, .marks = std::vector<std::uint32_t>(kMaxHistory + 1)}},
      {"record.cached_tokens",
       History{.key = kRequest, .cached_tokens = std::vector<std::uint32_t>(kMaxFrontPrompts + 1)}},
      {"record.events", FrontEvents{std::vector<FrontEvent>(kMaxFrontEvents + 1)}},
      {"events[0].key.connection", events({.key = {0, 1}})},
      {"events[0].key.ordinal", events({.key = {1, 0}})},
      {"events[0].token", events({.token = -1})},
      {"events[0].logprob", events({.logprob = std::nanf("")})},
      {"events[0].top_logprobs",
       events({.top_logprobs = std::vector<step::TokenLogprob>(step::kMaxTopLogprobs + 1)})},
      {"events[0].finish", events({.finish = static_cast<step::FinishReason>(5)})},
      {"events[0].error_code", events({.finish = kError, .error_code = 0})},
      {"events[0].error_message", events({.error_message = long_error})},
      {"record.status", Report{.status = 99}},
      {"record.status", Report{.status = 600}},
      {"record.text", Report{.text = std::string(kMaxReportBytes + 1, 'x')}},
      {"record.text", PromptText{.text = std::string(kMaxPromptTextBytes + 1, 'x')}},
      {"record.max_tokens", RunPrompts{.max_tokens = 0}},
      {"record.temperature", RunPrompts{.temperature = std::nanf("")}},
      {"record.seed", RunPrompts{.seed = -1}},
  };
  for (const auto& [field, record] : records) {
    const std::string message = refused_field(record, decode_leader_to_front);
    EXPECT_NE(message.find(field + ":"), std::string::npos) << field << ": " << message;
  }
}

TEST(CodecRefusal, RefusesOfAFrontWhatItMayNotSay) {
  const std::string long_name(kMaxNameBytes + 1, 'x');
  const auto generate = [](const std::function<void(Generate&)>& change) {
    Generate value{.key = kRequest};
    change(value);
    return value;
  };
  const std::vector<std::pair<std::string, FrontToLeader>> records = {
      {"key.connection", Admit{.key = {0, 1}}},
      {"key.ordinal", Admit{.key = {1, 0}}},
      {"route", Admit{.key = kRequest, .route = long_name}},
      {"key.connection", Begin{.key = {0, 1}}},
      {"id", Begin{.key = kRequest, .id = long_name}},
      {"prompts", Begin{.key = kRequest, .prompts = 0}},
      {"prompts", Begin{.key = kRequest, .prompts = kMaxFrontPrompts + 1}},
      {"key.ordinal", PromptPart{.key = {1, 0}, .ids = {1}}},
      {"ids", PromptPart{.key = kRequest, .ids = {}}},
      {"ids", PromptPart{.key = kRequest, .ids = {-1}}},
      {"ids", PromptPart{.key = kRequest, .ids = std::vector<TokenId>(kMaxPromptPart + 1)}},
      {"key.connection", Generate{}},
      {"choices", generate([](Generate& value) { value.choices = 0; })},
      {"choices", generate([](Generate& value) { value.choices = kMaxFrontChoices + 1; })},
      {"sampling.top_p", generate([](Generate& value) { value.sampling.top_p = 0.0F; })},
      {"stop.max_tokens", generate([](Generate& value) { value.stop.max_tokens = 0; })},
      {"cache_salt",
       generate([](Generate& value) { value.cache_salt = std::string(kMaxSaltBytes + 1, 'x'); })},
      {"key.connection", StopChoice{}},
      {"key.connection", End{}},
      {"outcome", End{.key = kRequest, .outcome = long_name}},
      {"error", End{.key = kRequest, .error = std::string(kMaxErrorBytes + 1, 'x')}},
      {"status", End{.key = kRequest, .status = 99}},
      {"status", End{.key = kRequest, .status = 600}},
      {"kind", Query{.kind = static_cast<QueryKind>(3)}},
      {"connection", Disconnected{0}},
      {"connection", AtRest{}},
      {"connection", Released{}},
      {"text", PromptsOutput{std::string(kMaxPromptTextBytes + 1, 'x')}},
      {"message", PromptsEnd{.message = std::string(kMaxErrorBytes + 1, 'x')}},
  };
  for (const auto& [field, record] : records) {
    const std::string message = refused_field(record, decode_front_to_leader);
    EXPECT_NE(message.find("record." + field + ":"), std::string::npos) << field << ": " << message;
  }
}

TEST(CodecRefusal, RefusesOfAnOperatorWhatHeMayNotSay) {
  using enum AdminCommand;
  const std::vector<std::pair<std::string, AdminRequest>> requests = {
      {"command", {static_cast<AdminCommand>(6)}},
      {"replica", {kDrain, 0x10000}},
      {"fronts", {kDrain, 0, true}},
      {"program", {kReload, 0, true, "front"}},
      {"program", {kReload, 0, false, "/opt/phalanx-front"}},
      {"program", {kReload, 0, true, std::string(kMaxPathBytes + 1, '/')}},
  };
  for (const auto& [field, request] : requests) {
    const std::string message = refused_field(request, decode_admin_request);
    EXPECT_NE(message.find("admin_request." + field + ":"), std::string::npos)
        << field << ": " << message;
  }
}

TEST(CodecRefusal, RefusesOfAServersStatusWhatIsOutOfBounds) {
  using Change = std::function<void(ServerStatus&)>;
  const std::string long_name(kMaxNameBytes + 1, 'x');
  const std::string long_error(kMaxErrorBytes + 1, 'x');
  const std::vector<std::pair<std::string, Change>> changes = {
      {"version", [&](ServerStatus& s) { s.version = long_name; }},
      {"model", [&](ServerStatus& s) { s.model = long_name; }},
      {"state", [&](ServerStatus& s) { s.state = long_name; }},
      {"fronts", [](ServerStatus& s) { s.fronts.resize(kMaxFronts + 1); }},
      {"replicas", [](ServerStatus& s) { s.replicas.resize(kMaxReplicas + 1); }},
      {"slot.last_error",
       [&](ServerStatus& s) {
         s.fronts.resize(1);
         s.fronts[0].slot.last_error = long_error;
       }},
      {"wrapper.command",
       [&](ServerStatus& s) {
         s.replicas.resize(1);
         s.replicas[0].wrapper.command = long_error;
       }},
      {"rank_wrappers",
       [](ServerStatus& s) {
         s.replicas.resize(1);
         s.replicas[0].rank_wrappers.resize(kMaxRanks + 1);
       }},
  };
  for (const auto& [field, change] : changes) {
    ServerStatus status;
    change(status);
    const std::string message = refused_field(AdminAnswer(status), decode_admin_answer);
    EXPECT_NE(message.find(field + ":"), std::string::npos) << field << ": " << message;
  }
  const AdminAnswer refused(AdminRefused{std::string(kMaxErrorBytes + 1, 'x')});
  EXPECT_NE(refused_field(refused, decode_admin_answer).find("message:"), std::string::npos);
}

TEST(CodecRefusal, RefusesOfADumpWhatIsOutOfBounds) {
  using Change = std::function<void(PoisonedRequest&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"error", [](PoisonedRequest& r) { r.error = std::string(kMaxErrorBytes + 1, 'x'); }},
      {"label", [](PoisonedRequest& r) { r.label = std::string(kMaxNameBytes + 1, 'x'); }},
      {"sampling.top_p", [](PoisonedRequest& r) { r.sampling.top_p = 0.0F; }},
      {"stop.max_tokens", [](PoisonedRequest& r) { r.stop.max_tokens = 0; }},
      {"prompt_ids", [](PoisonedRequest& r) { r.prompt_ids.resize(step::kMaxPromptTokens + 1); }},
      {"produced_ids", [](PoisonedRequest& r) { r.produced_ids = {-1}; }},
  };
  for (const auto& [field, change] : changes) {
    PoisonedRequest request;
    change(request);
    const std::string message = refused_field(request, decode_poisoned_request);
    EXPECT_NE(message.find("poisoned_request." + field + ":"), std::string::npos)
        << field << ": " << message;
  }
}

TEST(CodecRefusal, RefusesOfAFrontsBootstrapWhatIsOutOfBounds) {
  using Change = std::function<void(FrontBootstrap&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"model_name", [](FrontBootstrap& b) { b.model_name = std::string(kMaxNameBytes + 1, 'x'); }},
      {"model_root", [](FrontBootstrap& b) { b.model_root = std::string(kMaxPathBytes + 1, 'x'); }},
      {"default_sampling.top_k", [](FrontBootstrap& b) { b.default_sampling.top_k = -1; }},
      {"end_tokens",
       [](FrontBootstrap& b) {
         b.end_tokens = {3, 2};
       }},
      {"end_tokens", [](FrontBootstrap& b) { b.end_tokens.resize(step::kMaxEndTokens + 1); }},
      {"allowed_hosts",
       [](FrontBootstrap& b) { b.allowed_hosts = std::string(kMaxListBytes + 1, 'x'); }},
      {"allowed_origins",
       [](FrontBootstrap& b) { b.allowed_origins = std::string(kMaxListBytes + 1, 'x'); }},
      {"journal_places", [](FrontBootstrap& b) { b.journal_places = kMaxJournalPlaces + 1; }},
  };
  for (const auto& [field, change] : changes) {
    FrontBootstrap bootstrap;
    change(bootstrap);
    const std::string message = refused_field(ControlRecord(bootstrap), decode_control_record);
    EXPECT_NE(message.find("record." + field + ":"), std::string::npos) << field << ": " << message;
  }
}

TEST(CodecRefusal, RefusesOfAPlanWhatIsOutOfBounds) {
  using Change = std::function<void(ServerPlan&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"model_config",
       [](ServerPlan& p) { p.model_config = std::string(kMaxConfigBytes + 1, 'x'); }},
      {"model_name", [](ServerPlan& p) { p.model_name = std::string(kMaxNameBytes + 1, 'x'); }},
      {"kv_format", [](ServerPlan& p) { p.limits.kv_format = static_cast<step::KvFormat>(3); }},
      {"default_sampling.top_k", [](ServerPlan& p) { p.default_sampling.top_k = -1; }},
      {"end_tokens",
       [](ServerPlan& p) {
         p.end_tokens = {3, 2};
       }},
      {"end_tokens", [](ServerPlan& p) { p.end_tokens.resize(step::kMaxEndTokens + 1); }},
      {"tokenizer_bytes", [](ServerPlan& p) { p.tokenizer_bytes = 0; }},
      {"memory", [](ServerPlan& p) { p.memory.resize(kMaxRegions + 1); }},
  };
  for (const auto& [field, change] : changes) {
    ServerPlan plan{.tokenizer_bytes = 1};
    ASSERT_TRUE(check(ControlRecord(plan)));
    change(plan);
    const std::string message = refused_field(ControlRecord(plan), decode_control_record);
    EXPECT_NE(message.find("record." + field + ":"), std::string::npos) << field << ": " << message;
  }
}

TEST(CodecRefusal, RefusesBlobsThatAreNoWholeNumberOfRecords) {
  const auto body = [](Pack& pack) {
    pack.pack_array(6);
    pack.pack_array(3).pack(1).pack(1).pack(1);
    pack.pack_bin(5).pack_bin_body("12345", 5);
    pack.pack_nil().pack_nil().pack_nil().pack_nil();
  };
  EXPECT_EQ(refusal(stop([](Pack& pack) { pack.pack(1); }, body)),
            "leader_frame.message.prompt_ids: expected a blob of at most 1048576 records of 4 "
            "bytes, came a blob of 5 bytes");
}

}  // namespace
}  // namespace phalanx::wire
