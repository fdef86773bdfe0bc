// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/scheduler.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/limits.h"

namespace phalanx::engine {
namespace {

using step::FinishReason;

SchedulerOptions small() {
  SchedulerOptions options;
  options.limits.max_model_len = 512;
  options.limits.max_num_seqs = 4;
  options.limits.max_num_batched_tokens = 64;
  options.limits.kv_blocks = 32;
  options.max_waiting = 8;
  options.vocab_size = 100;
  return options;
}

wire::Submit request(std::uint64_t number, std::uint32_t prompt, std::uint32_t max_tokens) {
  wire::Submit submit;
  submit.key = {RequestId(number), ChoiceIndex(0), Attempt(1)};
  submit.prompt_ids.assign(prompt, 7);
  submit.stop.max_tokens = max_tokens;
  return submit;
}

wire::SequenceKey key(std::uint64_t number) {
  return request(number, 1, 1).key;
}

void accept(Scheduler& scheduler, const wire::Submit& submit) {
  const auto id = scheduler.submit(submit);
  ASSERT_TRUE(id) << id.error().to_string();
}

// What comes of one step in which every sampled token is `token`.
std::vector<wire::TokenUpdate> confirm(Scheduler& scheduler,
                                       const StepPlan& plan,
                                       TokenId token = 5) {
  step::SampleResult sample;
  sample.token = token;
  sample.logprob = -0.5F;
  sample.top_count = 2;
  sample.top[0] = {token, -0.5F};
  sample.top[1] = {9, -1.5F};
  return scheduler.confirm(plan, std::vector<step::SampleResult>(plan.rows.size(), sample));
}

// Runs one step.
std::vector<wire::TokenUpdate> step(Scheduler& scheduler, TokenId token = 5) {
  return confirm(scheduler, scheduler.plan(), token);
}

std::string refusal(const SchedulerOptions& options, const wire::Submit& submit) {
  Scheduler scheduler(options);
  const auto id = scheduler.submit(submit);
  return id ? "accepted" : id.error().to_string();
}

TEST(SchedulerOptions, NamesTheOptionThatIsWrong) {
  SchedulerOptions options = small();
  EXPECT_TRUE(validate(options));
  options.limits.max_num_batched_tokens = 3;
  EXPECT_EQ(validate(options).error().message(), "max_num_batched_tokens must be at least 4, is 3");
  options = small();
  options.limits.max_num_seqs = 5000;
  EXPECT_EQ(validate(options).error().message(), "max_num_seqs must be at most 4096, is 5000");
}

// However many blocks they share: the command that attaches them has the tokens of each.
TEST(Scheduler, RunsNoMoreThanOneCommandCanAttach) {
  SchedulerOptions options = small();
  options.limits.max_num_seqs = 128;
  options.limits.max_num_batched_tokens = 1 << 16;
  options.limits.max_model_len = 200'000;
  options.limits.kv_blocks = 20'000;
  options.max_waiting = 128;
  options.prefix_cache = true;
  Scheduler scheduler(options);
  constexpr std::uint32_t kPrompt = 140'001;
  for (std::uint64_t number = 1; number <= 128; ++number) {
    accept(scheduler, request(number, kPrompt, 2));
  }
  std::size_t ended = 0;
  std::uint32_t most = 0;
  for (int i = 0; i < 40 && ended < 128; ++i) {
    for (const wire::TokenUpdate& update : step(scheduler)) {
      ended += update.finish == FinishReason::kLength ? 1U : 0U;
    }
    most = std::max(most, scheduler.running());
    EXPECT_LE(scheduler.running() * (kPrompt * sizeof(TokenId) + kMaxSequenceBytes),
              wire::kMaxFrameBytes);
  }
  EXPECT_EQ(ended, 128U);
  EXPECT_GE(most, 64U) << "they share a prompt";
}

// Nobody plans behind steps that run ahead, so they stop where the command would be full, and the
// next plan takes one out.
TEST(Scheduler, StepsAheadGrowNoFurtherThanOneCommandCanAttach) {
  SchedulerOptions options = small();
  constexpr std::uint64_t kTogether = 2 * (kMaxSequenceBytes + 100 * sizeof(TokenId));
  options.max_command_bytes = kTogether / 7 * 8 + 8;  // two of 90 tokens are admitted
  Scheduler scheduler(options);
  accept(scheduler, request(1, 30, 10'000));
  accept(scheduler, request(2, 30, 10'000));
  step(scheduler);
  ASSERT_EQ(scheduler.running(), 2U);
  int ahead = 0;
  StepPlan plan = scheduler.plan();
  for (std::optional<StepPlan> next = scheduler.plan_after(plan); next && ahead < 10'000; ++ahead) {
    confirm(scheduler, std::exchange(plan, *next));
    next = scheduler.plan_after(plan);
  }
  EXPECT_GT(ahead, 100);
  const auto bytes = [](std::uint32_t tokens) {
    return kMaxSequenceBytes + (tokens + step::blocks_for(tokens) + 1) * sizeof(TokenId);
  };
  ASSERT_FALSE(plan.rows.empty());
  EXPECT_LE(2 * bytes(plan.rows[0].start), options.max_command_bytes);
  EXPECT_GT(2 * bytes(plan.rows[0].start + 2), options.max_command_bytes) << "but as far as that";
  confirm(scheduler, plan);
  step(scheduler);
  step(scheduler);
  EXPECT_EQ(scheduler.running(), 1U);
}

TEST(Scheduler, PlansAheadWhereNobodyFits) {
  SchedulerOptions options = small();
  options.limits.kv_blocks = 5;
  options.max_passes = 0;
  Scheduler scheduler(options);
  accept(scheduler, request(1, 50, 60));
  step(scheduler);
  accept(scheduler, request(2, 120, 10));
  accept(scheduler, request(3, 10, 10));
  StepPlan plan = scheduler.plan();
  ASSERT_EQ(plan.rows.size(), 1U);
  for (int i = 0; i < 5; ++i) {
    const auto next = scheduler.plan_after(plan);
    ASSERT_TRUE(next) << "two slots are free, but no memory";
    confirm(scheduler, std::exchange(plan, *next));
  }
  Scheduler lifted = scheduler;
  lifted.limit_blocks(5);
  EXPECT_FALSE(lifted.plan_after(plan)) << "there may be room";
  Scheduler arrival = scheduler;
  accept(arrival, request(4, 10, 10));
  EXPECT_FALSE(arrival.plan_after(plan)) << "who has come may fit";
  ASSERT_TRUE(scheduler.cancel(key(2)));
  confirm(scheduler, plan);
  EXPECT_FALSE(scheduler.plan_after(plan)) << "nobody keeps others out any more";
  EXPECT_EQ(scheduler.plan().rows.size(), 2U);
}

TEST(Scheduler, PlansNothingAheadWhereSomebodyWaitsForRows) {
  Scheduler scheduler(small());
  accept(scheduler, request(1, 64, 10));
  accept(scheduler, request(2, 64, 10));
  const StepPlan plan = scheduler.plan();
  ASSERT_EQ(plan.rows.size(), 1U);
  EXPECT_FALSE(scheduler.plan_after(plan));
}

// What the check allows for a sequence is what the codec may need for it.
TEST(SchedulerOptions, KnowWhatASequenceTakesInACommand) {
  step::SequenceAttach sequence;
  sequence.slot = sequence.prompt_tokens = sequence.choice = ~0U;
  sequence.sequence = ~0ULL;
  sequence.tokens.assign(7, 1 << 30);
  sequence.masked_until_min_tokens.assign(step::kMaxStopTokens, 1 << 30);
  sequence.sampling.logit_bias.assign(step::kMaxLogitBias, {1 << 30, 1.0F});
  sequence.sampling.seed = ~0ULL;
  step::StepItem item;
  item.slot = item.start = item.count = ~0U;
  item.sequence = ~0ULL;
  item.held_blocks = ~0U;
  item.blocks.assign(3, ~0U);
  wire::RankCommand command;
  const std::size_t empty = wire::encode(command).size();
  command.attach.push_back(sequence);
  command.items.push_back(item);
  command.detach.push_back(~0U);
  const std::size_t bytes = wire::encode(command).size() - empty - (7 + 3) * sizeof(TokenId);
  EXPECT_LE(bytes, kMaxSequenceBytes);
  EXPECT_GE(bytes, kMaxSequenceBytes * 9 / 10);
}

// The command of the step in which a sequence of `context` tokens draws its next one.
wire::RankCommand decoding_at(std::uint32_t context) {
  SchedulerOptions options = small();
  options.limits = {16384, 4, 16384, 2048};
  Scheduler scheduler(options);
  accept(scheduler, request(1, context, 100));
  step(scheduler);
  step(scheduler);
  return scheduler.command(scheduler.plan());
}

TEST(Scheduler, SaysOnlyWhatIsNewSoThatAStepCostsByItsBatch) {
  const wire::RankCommand early = decoding_at(64);
  const wire::RankCommand late = decoding_at(8192);
  ASSERT_EQ(late.items.size(), 1U);
  EXPECT_EQ(late.items[0].start, 8193U);
  EXPECT_EQ(late.items[0].held_blocks, 257U);
  EXPECT_TRUE(late.items[0].blocks.empty());
  // The positions take a few bytes more.
  EXPECT_LE(wire::encode(late).size(), wire::encode(early).size() + 4);
}

TEST(Scheduler, RefusesWhatCanNeverRun) {
  EXPECT_EQ(refusal(small(), request(1, 0, 5)),
            "invalid_argument: the prompt is empty; it needs at least one token");
  EXPECT_EQ(refusal(small(), request(1, 512, 5)),
            "invalid_argument: the prompt has 512 tokens; max_model_len 512 leaves room for 511");
  EXPECT_EQ(refusal(small(), request(1, 5, 0)),
            "invalid_argument: max_tokens must be at least 1, is 0");
  wire::Submit alien = request(1, 5, 5);
  alien.prompt_ids[3] = 100;
  EXPECT_EQ(refusal(small(), alien),
            "invalid_argument: the prompt holds token 100; ids go from 0 to 99");
  // Ranks refuse them, and would be blamed for it.
  wire::Submit alien_stop = request(1, 5, 5);
  alien_stop.stop.stop_token_ids = {3, 100};
  EXPECT_EQ(refusal(small(), alien_stop),
            "invalid_argument: stop_token_ids holds token 100; ids go from 0 to 99");
  wire::Submit alien_bias = request(1, 5, 5);
  alien_bias.sampling.logit_bias = {{-1, 1.0F}};
  EXPECT_EQ(refusal(small(), alien_bias),
            "invalid_argument: logit_bias holds token -1; ids go from 0 to 99");
  wire::Submit long_history = request(1, 5, 5);
  long_history.produced_ids.assign(6, 1);
  EXPECT_EQ(refusal(small(), long_history),
            "invalid_argument: prompt and produced tokens are 11; the sequence may reach 10");
  SchedulerOptions tight = small();
  tight.limits.kv_blocks = 3;
  EXPECT_EQ(refusal(tight, request(1, 50, 48)),
            "invalid_argument: the sequence may reach 98 tokens, 4 KV blocks; there are 3");
  EXPECT_EQ(refusal(tight, request(1, 50, 47)), "accepted");
}

TEST(Scheduler, BoundsItsQueue) {
  Scheduler scheduler(small());
  for (std::uint64_t i = 1; i <= 8; ++i) {
    accept(scheduler, request(i, 5, 5));
  }
  const auto id = scheduler.submit(request(9, 5, 5));
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code(), Code::kResourceExhausted);
}

TEST(Scheduler, CutsAPromptIntoChunksOfTheBudget) {
  Scheduler scheduler(small());
  accept(scheduler, request(1, 150, 5));
  const StepPlan first = scheduler.plan();
  ASSERT_EQ(first.rows.size(), 1U);
  EXPECT_TRUE(first.rows[0].admit);
  EXPECT_EQ(first.rows[0].count, 64U);
  EXPECT_FALSE(first.rows[0].sample);
  EXPECT_EQ(first.rows[0].new_blocks.size(), 2U);

  const auto updates = step(scheduler);
  ASSERT_EQ(updates.size(), 1U);
  EXPECT_FALSE(updates[0].has_token);
  EXPECT_EQ(updates[0].to_compute, 86U);
  EXPECT_EQ(updates[0].to_generate, 5U);
  step(scheduler);
  const StepPlan last = scheduler.plan();
  EXPECT_EQ(last.rows[0].start, 128U);
  EXPECT_EQ(last.rows[0].count, 22U);
  EXPECT_TRUE(last.rows[0].sample);
  const auto token = step(scheduler);
  EXPECT_TRUE(token[0].has_token);
  EXPECT_EQ(token[0].position, 0U);
  EXPECT_EQ(token[0].to_compute, 0U);
  EXPECT_EQ(token[0].to_generate, 4U);
}

TEST(Scheduler, ServesDecodingSequencesBeforeLongPrompts) {
  Scheduler scheduler(small());
  accept(scheduler, request(1, 200, 5));
  step(scheduler);  // the prompt runs, and takes the whole budget
  accept(scheduler, request(2, 10, 5));
  step(scheduler);
  step(scheduler);
  step(scheduler);  // its last chunk leaves room for the second
  ASSERT_EQ(scheduler.running(), 2U);
  accept(scheduler, request(3, 300, 5));
  step(scheduler);
  const StepPlan plan = scheduler.plan();
  ASSERT_EQ(plan.rows.size(), 3U);
  EXPECT_EQ(plan.rows[0].count, 1U);
  EXPECT_EQ(plan.rows[1].count, 1U);
  EXPECT_EQ(plan.rows[2].count, 62U);
  EXPECT_EQ(plan.tokens, 64U);
}

TEST(Scheduler, EndsAtMaxTokensAndAtStopTokens) {
  Scheduler scheduler(small());
  accept(scheduler, request(1, 10, 2));
  wire::Submit stops = request(2, 10, 50);
  stops.stop.stop_token_ids = {42};
  accept(scheduler, stops);
  EXPECT_EQ(step(scheduler).size(), 2U);
  const auto ends = step(scheduler, 42);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0].finish, FinishReason::kLength);
  EXPECT_TRUE(ends[0].has_token);
  EXPECT_EQ(ends[0].to_generate, 0U);
  EXPECT_EQ(ends[1].finish, FinishReason::kStop);
  EXPECT_EQ(ends[1].token, 42);
  EXPECT_TRUE(scheduler.empty());
  EXPECT_EQ(scheduler.blocks().free(), 32U);
  EXPECT_FALSE(scheduler.plan().changes_anything());
}

TEST(Scheduler, EndsAtTheLengthOfTheModel) {
  SchedulerOptions options = small();
  options.limits.max_model_len = 20;
  Scheduler scheduler(options);
  accept(scheduler, request(1, 18, 100));
  EXPECT_EQ(scheduler.find(key(1))->to_generate(), 2U);
  EXPECT_EQ(step(scheduler)[0].finish, FinishReason::kNone);
  EXPECT_EQ(step(scheduler)[0].finish, FinishReason::kLength);
}

TEST(Scheduler, EndsOnlyTheSequenceWhoseSampleIsAFault) {
  Scheduler scheduler(small());
  accept(scheduler, request(1, 4, 10));
  accept(scheduler, request(2, 4, 10));
  static_cast<void>(step(scheduler));
  const StepPlan plan = scheduler.plan();
  ASSERT_EQ(plan.rows.size(), 2U);
  std::vector<step::SampleResult> samples(2);
  samples[0].token = 5;
  samples[1].fault = static_cast<std::uint32_t>(Code::kInvalidArgument);
  const auto updates = scheduler.confirm(plan, samples);
  ASSERT_EQ(updates.size(), 2U);
  EXPECT_TRUE(updates[0].has_token);
  EXPECT_EQ(updates[0].finish, FinishReason::kNone);
  EXPECT_EQ(updates[1].key, key(2));
  EXPECT_FALSE(updates[1].has_token);
  EXPECT_EQ(updates[1].finish, FinishReason::kError);
  EXPECT_EQ(updates[1].error_code, static_cast<std::uint32_t>(Code::kInvalidArgument));
  EXPECT_EQ(updates[1].to_compute + updates[1].to_generate, 0U);
  EXPECT_FALSE(scheduler.contains(key(2)));
  EXPECT_EQ(scheduler.command(scheduler.plan()).detach.size(), 1U);

  samples.resize(1);
  samples[0].fault = static_cast<std::uint32_t>(Code::kDataLoss);
  const auto damaged = scheduler.confirm(scheduler.plan(), samples);
  ASSERT_EQ(damaged.size(), 1U);
  EXPECT_EQ(damaged[0].error_code, static_cast<std::uint32_t>(Code::kDataLoss));
  EXPECT_NE(damaged[0].error_message.find("weights"), std::string::npos);
}

TEST(Scheduler, ReportsLogprobsOnlyWhereAskedFor) {
  Scheduler scheduler(small());
  accept(scheduler, request(1, 10, 2));
  wire::Submit curious = request(2, 10, 2);
  curious.sampling.top_logprobs = 1;
  accept(scheduler, curious);
  const auto updates = step(scheduler);
  EXPECT_FALSE(updates[0].logprob.has_value());
  EXPECT_TRUE(updates[0].top_logprobs.empty());
  ASSERT_TRUE(updates[1].logprob.has_value());
  EXPECT_EQ(*updates[1].logprob, -0.5F);
  EXPECT_EQ(updates[1].top_logprobs.size(), 1U);
}

TEST(Scheduler, ContinuesAnEarlierAttemptAtItsPosition) {
  Scheduler scheduler(small());
  wire::Submit second = request(1, 10, 6);
  second.produced_ids = {1, 2, 3};
  accept(scheduler, second);
  EXPECT_EQ(scheduler.find(key(1))->to_compute(), 13U);
  EXPECT_EQ(scheduler.find(key(1))->to_generate(), 3U);
  const wire::RankCommand command = scheduler.command(scheduler.plan());
  ASSERT_EQ(command.attach.size(), 1U);
  EXPECT_EQ(command.attach[0].tokens.size(), 13U);
  EXPECT_EQ(command.attach[0].prompt_tokens, 10U);
  const auto updates = step(scheduler);
  EXPECT_EQ(updates[0].position, 3U);
  EXPECT_EQ(updates[0].to_generate, 2U);
}

TEST(Scheduler, EndsAtOnceWhatWasCompleteWhenItCame) {
  Scheduler scheduler(small());
  wire::Submit full = request(1, 10, 2);
  full.produced_ids = {1, 2};
  accept(scheduler, full);
  wire::Submit stopped = request(2, 10, 5);
  stopped.produced_ids = {1, 42};
  stopped.stop.stop_token_ids = {42};
  accept(scheduler, stopped);
  const auto updates = scheduler.sweep();
  ASSERT_EQ(updates.size(), 2U);
  EXPECT_EQ(updates[0].finish, FinishReason::kLength);
  EXPECT_EQ(updates[1].finish, FinishReason::kStop);
  EXPECT_FALSE(updates[0].has_token);
  EXPECT_TRUE(scheduler.empty());
}

TEST(Scheduler, DropsACancelledSequenceAtTheNextBoundary) {
  Scheduler scheduler(small());
  accept(scheduler, request(1, 10, 50));
  accept(scheduler, request(2, 10, 50));
  step(scheduler);
  const StepPlan plan = scheduler.plan();
  EXPECT_TRUE(scheduler.cancel(key(1)));
  EXPECT_FALSE(scheduler.cancel(key(9)));
  const auto updates = scheduler.confirm(plan, std::vector<step::SampleResult>(2));
  ASSERT_EQ(updates.size(), 2U);
  EXPECT_EQ(updates[0].key, key(2));
  EXPECT_EQ(updates[1].key, key(1));
  EXPECT_EQ(updates[1].finish, FinishReason::kCancelled);
  EXPECT_FALSE(updates[1].has_token);
  const wire::RankCommand command = scheduler.command(scheduler.plan());
  EXPECT_EQ(command.detach, std::vector<std::uint32_t>{0});
}

// Two sequences fill the pool; the older needs a block.
TEST(Scheduler, PreemptsTheYoungestAndComputesItAnewWithWhatItProduced) {
  SchedulerOptions options = small();
  options.limits.kv_blocks = 3;
  Scheduler scheduler(options);
  accept(scheduler, request(1, 31, 40));
  step(scheduler);
  accept(scheduler, request(2, 30, 20));
  for (int i = 0; i < 2; ++i) {
    step(scheduler);
  }
  ASSERT_EQ(scheduler.running(), 2U);
  // 1 holds two blocks, 2 grows into a second one that is not there.
  StepPlan plan;
  for (int i = 0; i < 40 && scheduler.preemptions() == 0; ++i) {
    plan = scheduler.plan();
    static_cast<void>(step(scheduler));
  }
  ASSERT_EQ(scheduler.preemptions(), 1U);
  EXPECT_EQ(plan.preempted, std::vector<SequenceId>{SequenceId(2)});
  const Sequence* victim = scheduler.find(key(2));
  ASSERT_NE(victim, nullptr);
  EXPECT_FALSE(victim->slot.has_value());
  EXPECT_EQ(victim->computed, 0U);
  EXPECT_GT(victim->produced(), 0U);
  EXPECT_EQ(victim->to_compute(), victim->length() - 1);

  for (int i = 0; i < 40 && !scheduler.find(key(2))->slot; ++i) {
    plan = scheduler.plan();
    static_cast<void>(step(scheduler));
  }
  const PlannedRow& row = plan.rows.back();
  EXPECT_TRUE(row.admit);
  EXPECT_EQ(row.start, 0U);
  EXPECT_EQ(row.count, scheduler.find(key(2))->length() - 1) << "prompt and produced tokens";
}

// The blocks of a victim are still needed if the step that preempts it fails.
TEST(Scheduler, LeavesTheBlocksOfAVictimAloneInTheStepThatPreemptsIt) {
  SchedulerOptions options = small();
  options.limits.kv_blocks = 5;
  Scheduler scheduler(options);
  accept(scheduler, request(1, 60, 60));
  accept(scheduler, request(2, 40, 60));
  for (int i = 0; i < 60; ++i) {
    const StepPlan plan = scheduler.plan();
    std::set<BlockId> victims;
    for (const SequenceId id : plan.preempted) {
      const Sequence* victim = scheduler.find(key(id.value()));
      victims.insert(victim->blocks.begin(), victim->blocks.end());
    }
    for (const PlannedRow& row : plan.rows) {
      for (const BlockId block : row.new_blocks) {
        EXPECT_FALSE(victims.contains(block));
      }
    }
    static_cast<void>(step(scheduler));
  }
  EXPECT_GT(scheduler.preemptions(), 0U);
}

TEST(Scheduler, LetsSmallOnesPassABigOneButNotForever) {
  SchedulerOptions options = small();
  options.limits.kv_blocks = 8;
  options.max_passes = 3;
  options.max_waiting = 100;
  Scheduler scheduler(options);
  accept(scheduler, request(1, 40, 60));  // grows to four blocks
  step(scheduler);
  accept(scheduler, request(2, 200, 10));  // needs seven
  for (std::uint64_t i = 3; i < 20; ++i) {
    accept(scheduler, request(i, 8, 4));
  }
  std::vector<std::uint64_t> order;
  for (int i = 0; i < 200 && !scheduler.empty(); ++i) {
    for (const PlannedRow& row : scheduler.plan().rows) {
      if (row.admit) {
        order.push_back(row.sequence.value());
      }
    }
    static_cast<void>(step(scheduler));
  }
  EXPECT_TRUE(scheduler.empty());
  const auto big = std::find(order.begin(), order.end(), 2U);
  ASSERT_NE(big, order.end());
  const auto passed = big - order.begin();
  EXPECT_GE(passed, 3) << "nobody may pass";
  EXPECT_LE(passed, 3 + 3) << "it waits too long";
}

TEST(Scheduler, ForgetsAllKvAndKeepsAllTokens) {
  Scheduler scheduler(small());
  accept(scheduler, request(1, 40, 20));
  step(scheduler);
  step(scheduler);
  const auto updates = scheduler.drop_kv();
  ASSERT_EQ(updates.size(), 1U);
  EXPECT_EQ(updates[0].to_compute, 41U);
  EXPECT_EQ(scheduler.running(), 0U);
  EXPECT_EQ(scheduler.blocks().free(), 32U);
  EXPECT_TRUE(scheduler.attach_table().empty());
  EXPECT_EQ(scheduler.plan().rows[0].count, 42U);
}

TEST(Scheduler, AttachesWhatRunsAndDetachesNothingTwice) {
  Scheduler scheduler(small());
  accept(scheduler, request(1, 10, 1));
  accept(scheduler, request(2, 10, 9));
  step(scheduler);  // the first one ends
  accept(scheduler, request(3, 10, 9));
  EXPECT_EQ(scheduler.command(scheduler.plan()).detach, std::vector<std::uint32_t>{0});
  const auto table = scheduler.attach_table();
  ASSERT_EQ(table.size(), 1U);
  EXPECT_EQ(table[0].slot, 1U);
  EXPECT_EQ(table[0].tokens.size(), 11U);
  EXPECT_TRUE(scheduler.command(scheduler.plan()).detach.empty());
}

TEST(Scheduler, FailsEverythingWithOneErrorEach) {
  Scheduler scheduler(small());
  accept(scheduler, request(1, 10, 9));
  step(scheduler);
  accept(scheduler, request(2, 10, 9));
  const auto updates = scheduler.fail_all(unavailable("going"));
  ASSERT_EQ(updates.size(), 2U);
  for (const wire::TokenUpdate& update : updates) {
    EXPECT_EQ(update.finish, FinishReason::kError);
    EXPECT_EQ(update.error_code, static_cast<std::uint32_t>(Code::kUnavailable));
    EXPECT_EQ(update.error_message, "going");
  }
  EXPECT_TRUE(scheduler.empty());
  EXPECT_EQ(scheduler.blocks().free(), 32U);
}

}  // namespace
}  // namespace phalanx::engine
