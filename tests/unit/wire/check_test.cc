// SPDX-License-Identifier: Apache-2.0
// No program may send what its peer refuses: check() says of a message what the decoder of the
// other side will say of its bytes, and what cannot be read costs no more than the key that it
// belongs to.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "phalanx/step/item.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sampling_rules.h"

#include "random_messages.h"

namespace phalanx::wire {
namespace {

constexpr std::uint32_t kRounds = 1000;

// Makes some values of a valid message extreme: possible ones, and ones beyond a bound.
class Extremes {
 public:
  explicit Extremes(std::uint32_t seed) : random_(seed) {}

  void bend(LeaderFrame& frame) {
    if (auto* submit = std::get_if<Submit>(&frame.message)) {
      maybe([&] { bend(submit->sampling); });
      maybe([&] {
        resize(submit->prompt_ids, {0, 1, step::kMaxPromptTokens, step::kMaxPromptTokens + 1});
      });
      maybe([&] { resize(submit->produced_ids, {0, step::kMaxPromptTokens + 1}); });
      maybe([&] { submit->prompt_ids.assign(3, token()); });
      maybe([&] { submit->cache_salt = text(kMaxSaltBytes); });
      maybe([&] { submit->stop.max_tokens = pick<std::uint32_t>({0, 1, ~0U}); });
      maybe([&] {
        resize(submit->stop.stop_token_ids, {0, step::kMaxStopTokens, step::kMaxStopTokens + 1});
      });
      maybe([&] { submit->stop.stop_token_ids = {token(), token()}; });
    }
  }
  void bend(ReplicaFrame& frame) {
    if (auto* batch = std::get_if<TokenBatch>(&frame.message)) {
      for (TokenUpdate& update : batch->updates) {
        maybe([&] { update.token = token(); });
        maybe([&] { update.logprob = real(); });
        maybe([&] { update.top_logprobs.resize(pick<std::size_t>({0, 20, 21})); });
        maybe([&] { update.top_logprobs.assign(1, {token(), real()}); });
        maybe([&] { update.error_message = text(kMaxErrorBytes); });
        maybe([&] { update.finish = static_cast<step::FinishReason>(pick<int>({0, 4, 5, 255})); });
      }
      maybe([&] {
        batch->updates.resize(
            pick<std::size_t>({0, step::kMaxSequencesPerStep, step::kMaxSequencesPerStep + 1}));
      });
    } else if (auto* status = std::get_if<ReplicaStatus>(&frame.message)) {
      maybe([&] { status->last_error = text(kMaxErrorBytes); });
      maybe([&] { status->ranks.resize(pick<std::size_t>({0, kMaxRanks, kMaxRanks + 1})); });
      maybe([&] { status->ranks.assign(1, {.state = static_cast<RankState>(pick({0, 3, 4}))}); });
    } else if (auto* failed = std::get_if<ReplicaFailed>(&frame.message)) {
      maybe([&] { failed->message = text(kMaxErrorBytes); });
    } else if (auto* holding = std::get_if<ReplicaHolding>(&frame.message)) {
      maybe([&] { holding->keys.resize(pick<std::size_t>({0, kMaxHeldKeys, kMaxHeldKeys + 1})); });
      maybe([&] { std::reverse(holding->keys.begin(), holding->keys.end()); });
      maybe([&] { holding->to_end = false; });
    } else if (auto* changes = std::get_if<PrefixChanges>(&frame.message)) {
      const std::size_t size = pick<std::size_t>({0, kMaxPrefixChanges, kMaxPrefixChanges + 1});
      maybe([&] { changes->published.resize(size); });
      maybe([&] { changes->evicted.resize(size); });
    }
  }
  void bend(RankCommand& command) {
    maybe([&] { command.op = static_cast<RankOp>(pick({0, 1, 8, 9})); });
    maybe([&] { command.detach.resize(step::kMaxSequencesPerStep + pick<std::size_t>({0, 1})); });
    for (step::SequenceAttach& attach : command.attach) {
      maybe([&] { bend(attach.sampling); });
      maybe([&] { attach.tokens.assign(2, token()); });
      maybe([&] { attach.prompt_tokens = pick<std::uint32_t>({0, 2, 3, ~0U}); });
      maybe([&] {
        resize(attach.masked_until_min_tokens, {0, step::kMaxStopTokens, step::kMaxStopTokens + 1});
      });
    }
    for (step::StepItem& item : command.items) {
      maybe([&] { item.start = pick<std::uint32_t>({0, step::kMaxPromptTokens, ~0U}); });
      maybe([&] { item.count = pick<std::uint32_t>({0, 1, step::kMaxPromptTokens, ~0U}); });
      maybe([&] { item.blocks.resize(step::kMaxBlocksPerSequence + pick<std::size_t>({0, 1})); });
    }
    maybe([&] { command.items.resize(step::kMaxSequencesPerStep + pick<std::size_t>({0, 1})); });
  }
  void bend(RankReply& reply) {
    maybe([&] { reply.rank = RankId(pick<std::uint32_t>({0, kMaxRanks - 1, kMaxRanks, ~0U})); });
    maybe([&] { reply.op = static_cast<RankOp>(pick({0, 1, 8, 9})); });
    maybe([&] { reply.message = text(kMaxErrorBytes); });
    maybe([&] { reply.pid = pick<std::int32_t>({-1, 0, std::numeric_limits<int>::min()}); });
  }
  void bend(ControlRecord& record) {
    if (auto* replica = std::get_if<ReplicaBootstrap>(&record)) {
      maybe([&] { bend(replica->common); });
      maybe([&] { bend(replica->plan); });
      maybe([&] { replica->rank_cpus.resize(pick<std::size_t>({0, kMaxRanks, kMaxRanks + 1})); });
      maybe([&] { replica->rank_cpus = {std::vector<std::uint32_t>(kMaxCpus + below(2))}; });
    } else if (auto* rank = std::get_if<RankBootstrap>(&record)) {
      maybe([&] { bend(rank->common); });
      maybe([&] { bend(rank->plan); });
      maybe([&] { rank->rank = RankId(below(kMaxRanks)); });
      maybe([&] { rank->region_bytes.resize(kMaxRegions + below(2)); });
      maybe([&] { rank->region_bytes.assign(1, {text(kMaxNameBytes), 1}); });
    } else if (auto* loader = std::get_if<LoaderBootstrap>(&record)) {
      maybe([&] { loader->model_path = text(kMaxPathBytes); });
      maybe([&] { loader->model_config = text(kMaxConfigBytes); });
      maybe([&] { loader->tp = pick<std::uint32_t>({0, 1, kMaxRanks, kMaxRanks + 1}); });
    } else if (auto* progress = std::get_if<ChildProgress>(&record)) {
      maybe([&] { progress->phase = text(kMaxNameBytes); });
    } else if (auto* failed = std::get_if<ChildFailed>(&record)) {
      maybe([&] { failed->message = text(kMaxErrorBytes); });
    } else if (auto* planner = std::get_if<PlannerBootstrap>(&record)) {
      maybe([&] { bend(planner->common); });
      maybe([&] { planner->model_path = text(kMaxPathBytes); });
      maybe([&] { planner->chat_template_path = text(kMaxPathBytes); });
      maybe([&] { planner->dp = pick<std::uint32_t>({0, 1, kMaxReplicas, kMaxReplicas + 1}); });
      maybe([&] { planner->tp = pick<std::uint32_t>({0, 1, kMaxRanks, kMaxRanks + 1}); });
      maybe([&] { planner->limits.kv_format = static_cast<step::KvFormat>(below(4)); });
    } else if (auto* made = std::get_if<ServerPlan>(&record)) {
      maybe([&] { made->model_config = text(kMaxConfigBytes); });
      maybe([&] { made->model_name = text(kMaxNameBytes); });
      maybe([&] { made->weight_summary = text(kMaxNameBytes); });
      maybe([&] { made->limits.kv_format = static_cast<step::KvFormat>(below(4)); });
      maybe([&] { bend(made->default_sampling); });
      maybe([&] { made->end_tokens = {token(), token()}; });
      maybe([&] { made->end_tokens.resize(step::kMaxEndTokens + below(2)); });
      maybe([&] { made->tokenizer_bytes = below(2); });
      maybe([&] { made->memory.resize(kMaxRegions + below(2)); });
      maybe([&] { made->memory.assign(1, {text(kMaxNameBytes), 1}); });
    } else if (auto* front = std::get_if<FrontBootstrap>(&record)) {
      maybe([&] { bend(front->common); });
      maybe([&] { bend(front->default_sampling); });
      maybe([&] { front->model_name = text(kMaxNameBytes); });
      maybe([&] { front->model_root = text(kMaxPathBytes); });
      maybe([&] { front->end_tokens = {token(), token()}; });
      maybe([&] { front->end_tokens.resize(step::kMaxEndTokens + below(2)); });
      maybe([&] { front->allowed_hosts = text(kMaxListBytes); });
      maybe([&] { front->allowed_origins = text(kMaxListBytes); });
    }
  }
  void bend(LeaderToFront& record) {
    if (auto* connect = std::get_if<Connect>(&record)) {
      maybe([&] { connect->connection = below(2); });
      maybe([&] { connect->peer = text(kMaxNameBytes); });
      maybe([&] { connect->refusal = text(kMaxErrorBytes); });
    } else if (auto* admitted = std::get_if<Admitted>(&record)) {
      bend(admitted->key);
      maybe([&] { admitted->message = text(kMaxErrorBytes); });
    } else if (auto* events = std::get_if<FrontEvents>(&record)) {
      for (FrontEvent& event : events->events) {
        bend(event.key);
        maybe([&] { event.token = token(); });
        maybe([&] { event.logprob = real(); });
        maybe([&] { event.top_logprobs.assign(20 + below(2), {token(), real()}); });
        maybe([&] { event.finish = static_cast<step::FinishReason>(pick<int>({0, 4, 5, 255})); });
        maybe([&] { event.error_code = below(2); });
        maybe([&] { event.error_message = text(kMaxErrorBytes); });
      }
      maybe([&] { events->events.resize(kMaxFrontEvents + below(2), {.key = {1, 1}}); });
    } else if (auto* report = std::get_if<Report>(&record)) {
      maybe([&] { report->status = http_status(); });
      maybe([&] { report->text = text(kMaxReportBytes); });
    }
  }
  void bend(FrontToLeader& record) {
    if (auto* admit = std::get_if<Admit>(&record)) {
      bend(admit->key);
      maybe([&] { admit->route = text(kMaxNameBytes); });
    } else if (auto* begin = std::get_if<Begin>(&record)) {
      bend(begin->key);
      maybe([&] { begin->id = text(kMaxNameBytes); });
      maybe([&] { begin->prompts = pick({0U, 1U, kMaxFrontPrompts, kMaxFrontPrompts + 1}); });
    } else if (auto* part = std::get_if<PromptPart>(&record)) {
      bend(part->key);
      maybe([&] { resize(part->ids, {0, 1, kMaxPromptPart, kMaxPromptPart + 1}); });
      maybe([&] { part->ids.assign(3, token()); });
    } else if (auto* generate = std::get_if<Generate>(&record)) {
      bend(generate->key);
      maybe([&] { generate->choices = pick({0U, 1U, kMaxFrontChoices, kMaxFrontChoices + 1}); });
      maybe([&] { bend(generate->sampling); });
      maybe([&] { generate->stop.stop_token_ids = {token(), token()}; });
      maybe([&] { generate->cache_salt = text(kMaxSaltBytes); });
    } else if (auto* stop = std::get_if<StopChoice>(&record)) {
      bend(stop->key);
    } else if (auto* end = std::get_if<End>(&record)) {
      bend(end->key);
      maybe([&] { end->outcome = text(kMaxNameBytes); });
      maybe([&] { end->error = text(kMaxErrorBytes); });
      maybe([&] { end->status = http_status(); });
    } else if (auto* query = std::get_if<Query>(&record)) {
      maybe([&] { query->kind = static_cast<QueryKind>(pick({0, 2, 3, 255})); });
    } else if (auto* gone = std::get_if<Disconnected>(&record)) {
      maybe([&] { gone->connection = below(2); });
    } else if (auto* rest = std::get_if<AtRest>(&record)) {
      maybe([&] { rest->connection = below(2); });
    } else if (auto* released = std::get_if<Released>(&record)) {
      maybe([&] { released->connection = below(2); });
    }
  }

 private:
  void bend(RequestKey& key) {
    maybe([&] { key.connection = pick<std::uint64_t>({0, 1, ~std::uint64_t{0}}); });
    maybe([&] { key.ordinal = pick({0U, 1U, ~0U}); });
  }
  void bend(step::SamplingParams& sampling) {
    for (float step::SamplingParams::*member : {&step::SamplingParams::temperature,
                                                &step::SamplingParams::top_p,
                                                &step::SamplingParams::min_p,
                                                &step::SamplingParams::repetition_penalty,
                                                &step::SamplingParams::presence_penalty,
                                                &step::SamplingParams::frequency_penalty}) {
      maybe([&] { sampling.*member = real(); });
    }
    maybe([&] { sampling.top_k = token(); });
    maybe([&] { sampling.top_logprobs = pick({-2, -1, 0, 20, 21}); });
    maybe([&] { sampling.logit_bias = {{token(), real()}, {token(), real()}}; });
    maybe([&] { sampling.logit_bias.resize(step::kMaxLogitBias + 1); });
  }
  void bend(ChildCommon& common) {
    maybe([&] { common.endpoint = text(kMaxNameBytes); });
    maybe([&] { common.log_level = text(kMaxNameBytes); });
  }
  void bend(ModelPlan& plan) {
    maybe([&] { plan.tp = pick<std::uint32_t>({0, 1, kMaxRanks, kMaxRanks + 1}); });
    maybe([&] { plan.model_config = text(kMaxConfigBytes); });
    maybe([&] { plan.runner = static_cast<step::Runner>(below(4)); });
    maybe([&] { plan.isa = text(kMaxNameBytes); });
  }

  std::uint32_t below(std::uint32_t bound) {
    return std::uniform_int_distribution<std::uint32_t>(0, bound - 1)(random_);
  }
  void maybe(const std::function<void()>& change) {
    if (below(6) == 0) {
      change();
    }
  }
  template <typename Value>
  Value pick(std::initializer_list<Value> values) {
    return values.begin()[below(static_cast<std::uint32_t>(values.size()))];
  }
  template <typename Values>
  void resize(Values& values, std::initializer_list<std::size_t> sizes) {
    values.resize(pick(sizes));
  }
  std::uint32_t http_status() { return pick({0U, 99U, 100U, 599U, 600U, ~0U}); }
  TokenId token() { return pick<TokenId>({-1, 0, 7, 8, std::numeric_limits<TokenId>::max()}); }
  float real() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    return pick({0.0F,
                 -0.0F,
                 1e-45F,
                 1e-40F,
                 1.2e-38F,
                 1e-10F,
                 0.01F,
                 1.0F,
                 2.0F,
                 100.0F,
                 101.0F,
                 -2.0F,
                 -2.1F,
                 1e30F,
                 kInfinity,
                 -kInfinity,
                 std::nanf("")});
  }
  std::string text(std::size_t most) { return std::string(most + below(2), 'x'); }

  std::mt19937 random_;
};

struct Verdicts {
  std::uint32_t accepted = 0;
  std::uint32_t refused = 0;
};

template <typename Make, typename Decode>
Verdicts compare(Make make, Decode decode) {
  Verdicts verdicts;
  for (std::uint32_t seed = 0; seed < kRounds; ++seed) {
    auto message = make(seed);
    Extremes(seed).bend(message);
    const Status checked = check(message);
    const auto decoded = decode(encode(message));
    EXPECT_EQ(bool(checked), bool(decoded))
        << "seed " << seed << ": "
        << (checked ? decoded.error().to_string() : checked.error().to_string());
    if (decoded) {
      EXPECT_TRUE(*decoded == message) << "seed " << seed;
    }
    ++(checked ? verdicts.accepted : verdicts.refused);
  }
  return verdicts;
}

TEST(Check, SaysOfEveryMessageWhatItsReceiverWillSay) {
  for (const Verdicts& verdicts :
       {compare([](std::uint32_t seed) { return RandomMessages(seed).leader_frame(); },
                decode_leader_frame),
        compare([](std::uint32_t seed) { return RandomMessages(seed).replica_frame(); },
                decode_replica_frame),
        compare([](std::uint32_t seed) { return RandomMessages(seed).rank_command(); },
                decode_rank_command),
        compare([](std::uint32_t seed) { return RandomMessages(seed).rank_reply(); },
                decode_rank_reply),
        compare([](std::uint32_t seed) { return RandomMessages(seed).control_record(); },
                decode_control_record),
        compare([](std::uint32_t seed) { return RandomMessages(seed).leader_to_front(); },
                decode_leader_to_front),
        compare([](std::uint32_t seed) { return RandomMessages(seed).front_to_leader(); },
                decode_front_to_leader)}) {
    EXPECT_GT(verdicts.accepted, kRounds / 10);
    EXPECT_GT(verdicts.refused, kRounds / 20);
  }
}

TEST(Check, NamesTheFieldTheRangeAndTheValue) {
  step::SamplingParams sampling;
  sampling.top_p = 1.5F;
  EXPECT_EQ(check(sampling).error().message(),
            "sampling.top_p: expected a float from 0.000000 to 1.000000, came 1.500000");
}

TEST(SamplingRules, JudgeTheNumberThatRanksComputeWith) {
  EXPECT_EQ(step::narrowed(1e-39), 0.0F);
  EXPECT_EQ(step::narrowed(-1e-39), 0.0F);
  EXPECT_EQ(step::narrowed(1e-50), 0.0F);
  EXPECT_EQ(step::narrowed(1.2e-38), 1.2e-38F);
  EXPECT_EQ(step::narrowed(1e300), std::numeric_limits<float>::infinity());
  EXPECT_EQ(step::narrowed(-1e39), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(step::narrowed(std::nan(""))));
  EXPECT_FALSE(step::kTopPRule.allows(step::narrowed(std::nan(""))));
  EXPECT_TRUE(step::kTopPRule.allows(step::narrowed(1e-10)));
  EXPECT_TRUE(step::kRepetitionPenaltyRule.allows(step::narrowed(0.01)));
}

// ---- what cannot be read

const SequenceKey kKey{RequestId(7), ChoiceIndex(1), Attempt(2)};

TEST(RefusedSubmits, TellTheirKey) {
  Submit submit{.key = kKey,
                .prompt_ids = {1},
                .produced_ids = {},
                .sampling = {},
                .stop = {},
                .cache_salt = {}};
  submit.sampling.top_p = 0.0F;
  const std::string bytes = encode(LeaderFrame{Boot(3), Incarnation(4), submit});
  ASSERT_FALSE(decode_leader_frame(bytes));
  const auto refused = read_refused_submit(bytes);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->boot, Boot(3));
  EXPECT_EQ(refused->incarnation, Incarnation(4));
  EXPECT_EQ(refused->key, kKey);
  EXPECT_FALSE(read_refused_submit(bytes.substr(0, bytes.size() - 1)));
  EXPECT_FALSE(read_refused_submit(encode(LeaderFrame{Boot(3), Incarnation(4), Cancel{kKey}})));
}

TEST(SalvagedBatches, CostOnlyTheKeysThatCannotBeRead) {
  TokenBatch batch{StepId(9), std::vector<TokenUpdate>(3)};
  for (std::uint64_t i = 0; i < 3; ++i) {
    batch.updates[i].key.request = RequestId(i);
    batch.updates[i].has_token = true;
  }
  batch.updates[1].key = kKey;
  batch.updates[1].logprob = std::nanf("");
  const std::string bytes = encode(ReplicaFrame{Boot(3), Incarnation(4), batch});
  ASSERT_FALSE(decode_replica_frame(bytes));
  const auto salvaged = salvage_token_batch(bytes);
  ASSERT_TRUE(salvaged) << salvaged.error().to_string();
  EXPECT_EQ(salvaged->frame.boot, Boot(3));
  EXPECT_EQ(salvaged->frame.incarnation, Incarnation(4));
  EXPECT_EQ(salvaged->refused, std::vector{kKey});
  const auto& updates = std::get<TokenBatch>(salvaged->frame.message).updates;
  ASSERT_EQ(updates.size(), 3U);
  EXPECT_EQ(updates[0], batch.updates[0]);
  EXPECT_EQ(updates[2], batch.updates[2]);
  EXPECT_EQ(updates[1].key, kKey);
  EXPECT_FALSE(updates[1].has_token);
  EXPECT_EQ(updates[1].finish, step::FinishReason::kError);
  EXPECT_EQ(updates[1].error_code, static_cast<std::uint32_t>(Code::kDataLoss));
}

TEST(SalvagedBatches, NeverReadBeyondAFrame) {
  TokenBatch batch{StepId(9), std::vector<TokenUpdate>(2)};
  batch.updates[1].logprob = std::nanf("");
  const std::string bytes = encode(ReplicaFrame{Boot(3), Incarnation(4), batch});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(salvage_token_batch(std::string_view(bytes).substr(0, size)));
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int value : {0x00, 0x7F, 0x90, 0x9F, 0xC0, 0xDC, 0xFF}) {
      std::string bent = bytes;
      bent[i] = static_cast<char>(value);
      static_cast<void>(salvage_token_batch(bent));
      static_cast<void>(read_refused_submit(bent));
    }
  }
}

}  // namespace
}  // namespace phalanx::wire
