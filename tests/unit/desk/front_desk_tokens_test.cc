// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <limits>
#include <string>

#include "phalanx/obs/log.h"
#include "phalanx/step/limits.h"
#include "phalanx/wire/limits.h"

#include "desk_fixture.h"

namespace phalanx::desk {
namespace {

using std::chrono::milliseconds;

class FrontDeskTokensTest : public DeskTest {
 protected:
  void lose_replica() {
    router_.table().at(ReplicaId(0)).ready = false;
    dispatcher_.on_replica_lost(ReplicaId(0));
    EXPECT_FALSE(dispatcher_.on_replica_died(ReplicaId(0), false, "killed by signal 9 (SIGKILL)"));
  }
  void get_replica_back() {
    router_.table().at(ReplicaId(0)).ready = true;
    dispatcher_.on_replica_ready(ReplicaId(0));
    take_turns();
  }
};

constexpr std::uint64_t kManyTokens = 1'000'000;

std::string last_line() {
  return obs::recent_log_lines().back();
}

// ---- tokens

TEST_F(FrontDeskTokensTest, TellsTokensWithTheirPromptsAndChoicesInTheirOrder) {
  begin(kKey, 2);
  generate(kKey, 2);
  generate(kKey, 3);
  wire::TokenUpdate first = token_of(3, 0, 'x');  // choice 1 of prompt 1
  first.logprob = -0.5F;
  first.top_logprobs = {{'x', -0.5F}, {'y', -2.0F}};
  first.cached_tokens = 1;
  produce(first);
  produce(1, 0, 'y');
  produce(3, 1, 'z');
  produce(4, 0, 'w');

  const std::vector<wire::FrontEvent> events = flush_events();
  ASSERT_EQ(events.size(), 4U);
  wire::FrontEvent expected{.key = kKey, .prompt = 1, .choice = 1, .position = 0, .token = 'x'};
  expected.logprob = -0.5F;
  expected.top_logprobs = {{'x', -0.5F}, {'y', -2.0F}};
  expected.cached_tokens = 1;
  EXPECT_EQ(events[0], expected);
  EXPECT_EQ(events[1], (wire::FrontEvent{.key = kKey, .choice = 1, .token = 'y'}));
  EXPECT_EQ(events[2].prompt, 1U);
  EXPECT_EQ(events[2].choice, 1U);
  EXPECT_EQ(events[2].position, 1U);
  EXPECT_EQ(events[2].token, 'z');
  EXPECT_EQ(events[3].choice, 2U);
}

TEST_F(FrontDeskTokensTest, TheLastTokenOfAChoiceSaysHowItEnded) {
  begin(kKey);
  EXPECT_TRUE(desk_.on_prompt_part(0, {kKey, {1}}));
  wire::Generate wish = generate_of(kKey, 2, 2);
  wish.stop.stop_token_ids = {'s'};
  EXPECT_TRUE(desk_.on_generate(0, wish));
  produce(0, 0, 'a');
  produce(0, 1, 'b');
  produce(1, 0, 's');
  const std::vector<wire::FrontEvent> events = flush_events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].finish, step::FinishReason::kNone);
  EXPECT_EQ(events[1].finish, step::FinishReason::kLength);
  EXPECT_EQ(events[2].finish, step::FinishReason::kStop);
  EXPECT_EQ(desk_.open(), 1U) << "its end is the front's to say";
  EXPECT_TRUE(desk_.on_end(0, {kKey, "stop", "", 200}));
  expect_nothing_left();
}

TEST_F(FrontDeskTokensTest, AsksForOneFlushPerBatch) {
  begin(kKey, 1, 100, 0);
  begin(kOther, 1, 100, 1);
  generate(kKey);
  generate(kOther, 1, kMaxTokens, 1);
  EXPECT_EQ(flushes_asked_, 0);
  dispatcher_.on_token_batch(
      ReplicaId(0), {StepId(1), {token_of(0, 0, 'a'), token_of(1, 0, 'b'), token_of(0, 1, 'c')}});
  EXPECT_EQ(flushes_asked_, 1);
  desk_.flush();
  EXPECT_EQ(sent_.size(), 3U) << "an Admitted before, and one record for each front";
  EXPECT_TRUE(flush().empty()) << "it is told once";
  produce(1, 1);
  EXPECT_EQ(flushes_asked_, 2);
  EXPECT_EQ(flush_events(1).size(), 1U);
}

TEST_F(FrontDeskTokensTest, SplitsRecordsOfManyTokens) {
  constexpr std::uint32_t kTokens = 2 * wire::kMaxFrontEvents + 1;
  begin(kKey);
  generate(kKey, 1, kTokens);
  for (std::uint32_t i = 0; i < kTokens; ++i) {
    produce(0, i, static_cast<TokenId>(i));
  }
  std::vector<std::size_t> sizes;
  TokenId next = 0;
  for (const wire::FrontEvents& record : flush()) {
    sizes.push_back(record.events.size());
    for (const wire::FrontEvent& event : record.events) {
      EXPECT_EQ(event.token, next++);
    }
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{wire::kMaxFrontEvents, wire::kMaxFrontEvents, 1}));
}

TEST_F(FrontDeskTokensTest, SplitsRecordsOfLargeTokens) {
  constexpr std::uint32_t kTokens = wire::kMaxFrontEvents;
  constexpr TokenId kLargest = std::numeric_limits<TokenId>::max();
  const wire::RequestKey key{std::numeric_limits<std::uint64_t>::max(),
                             std::numeric_limits<std::uint32_t>::max()};
  begin(key);
  generate(key, 1, kTokens);
  wire::TokenUpdate update = token_of(0, 0, kLargest);
  update.logprob = -123.456F;
  update.top_logprobs.assign(step::kMaxTopLogprobs, {kLargest, -123.456F});
  update.cached_tokens = std::numeric_limits<std::uint32_t>::max();
  for (update.position = 0; update.position < kTokens; ++update.position) {
    produce(update);
  }
  const std::vector<wire::FrontEvents> records = flush();  // each is checked where it is sent
  EXPECT_GE(records.size(), 2U);
  EXPECT_LE(records.size(), 4U) << "and not one by one";
  std::uint32_t next = 0;
  for (const wire::FrontEvents& record : records) {
    for (const wire::FrontEvent& event : record.events) {
      EXPECT_EQ(event.position, next++);
    }
  }
  EXPECT_EQ(next, kTokens);
}

TEST_F(FrontDeskTokensTest, SplitsRecordsOfLongErrors) {
  for (std::uint32_t i = 1; i <= 64; ++i) {
    begin({7, i}, 1, 10);
    generate({7, i});
  }
  dispatcher_.fail_all(unavailable(std::string(2 * wire::kMaxErrorBytes, 'x')));
  const std::vector<wire::FrontEvent> events = flush_events();
  EXPECT_GE(sent_.size(), 2U);
  ASSERT_EQ(events.size(), 64U);
  EXPECT_EQ(events[63].key.ordinal, 64U);
  EXPECT_EQ(events[63].error_message.size(), wire::kMaxErrorBytes);
}

// ---- ends

TEST_F(FrontDeskTokensTest, AStoppedChoiceForgetsItsLaterTokensAndTheReplicaHears) {
  begin(kKey, 2);
  generate(kKey);
  generate(kKey, 2);
  for (std::uint32_t i = 0; i < 3; ++i) {
    produce(2, i);  // choice 1 of prompt 1
    produce(1, i);
  }
  desk_.on_stop(0, {kKey, 1, 1, 0});
  EXPECT_EQ(port_.cancels, std::vector<wire::SequenceKey>{port_.submits[2].key});
  EXPECT_EQ(flush_events().size(), 6U) << "the front drops what was on its way";
  produce(2, 3);
  produce(1, 3);
  const std::vector<wire::FrontEvent> events = flush_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].choice, 0U);
  EXPECT_TRUE(desk_.on_end(0, {kKey, "stop", "", 200}));
  EXPECT_EQ(counted_tokens(), 5) << "four of one choice, one of the other";
  expect_nothing_left();
}

TEST_F(FrontDeskTokensTest, AStopOfWhatIsNotThereChangesNothing) {
  begin(kKey, 2);
  generate(kKey, 2);
  generate(kKey);
  produce(0, 0);
  produce(2, 0);
  for (const wire::StopChoice& stop :
       std::vector<wire::StopChoice>{{kKey, 0, 0, 1},  // a token that is not there yet
                                     {kKey, 0, 1, 0},
                                     {kKey, 0, 2, 0},  // a choice of the next prompt
                                     {kKey, 1, 1, 0},
                                     {kKey, 1, std::numeric_limits<std::uint32_t>::max(), 0},
                                     {kKey, 2, 0, 0},
                                     {kOther, 0, 0, 0}}) {
    desk_.on_stop(0, stop);
  }
  desk_.on_stop(1, {kKey, 0, 0, 0});
  EXPECT_TRUE(port_.cancels.empty());
  produce(0, 1);
  produce(1, 0);
  produce(2, 1);
  EXPECT_EQ(flush_events().size(), 5U);
}

TEST_F(FrontDeskTokensTest, AStopThatComesTwiceOrAfterTheEndOfItsChoiceStillCounts) {
  begin(kKey);
  generate(kKey, 1, 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    produce(0, i);
  }
  desk_.on_stop(0, {kKey, 0, 0, 1});
  desk_.on_stop(0, {kKey, 0, 0, 1});
  desk_.on_stop(0, {kKey, 0, 0, 2});
  EXPECT_TRUE(desk_.on_end(0, {kKey, "stop", "", 200}));
  EXPECT_EQ(counted_tokens(), 2);
  expect_nothing_left();
}

TEST_F(FrontDeskTokensTest, AnEndGivesThePlaceBackAndCancelsWhatStillRuns) {
  begin(kKey, 2);
  generate(kKey, 2);
  generate(kKey);
  produce(0, 0);
  EXPECT_TRUE(desk_.on_end(0, {kKey, "client_gone", "", 200}));
  EXPECT_EQ(port_.cancels.size(), 3U);
  expect_nothing_left();
  flush();
  produce(0, 1);
  produce(1, 0);
  EXPECT_TRUE(flush().empty());
  EXPECT_EQ(ended("abort"), 1);
  EXPECT_EQ(counted_tokens(), 1);
}

TEST_F(FrontDeskTokensTest, AnErrorEndsARequestWithOneEvent) {
  begin(kKey, 2);
  generate(kKey, 2);
  generate(kKey);
  begin(kOther);
  generate(kOther);
  produce(0, 0);
  produce(2, 0);
  break_down(0);
  produce(2, 1);  // of its other prompt
  break_down(2);
  produce(3, 0);
  const std::vector<wire::FrontEvent> events = flush_events();
  ASSERT_EQ(events.size(), 4U);
  wire::FrontEvent expected{.key = kKey, .finish = step::FinishReason::kError};
  expected.error_code = static_cast<std::uint32_t>(Code::kInvalidArgument);
  expected.error_message = "broken";
  EXPECT_EQ(events[2], expected);
  EXPECT_EQ(events[3].key, kOther);
  EXPECT_EQ(desk_.open(), 2U) << "the place is the front's to give back";
  EXPECT_TRUE(desk_.on_end(0, {kKey, "error", "broken", 200}));
  EXPECT_TRUE(desk_.on_end(0, {kOther, "stop", "", 200}));
  EXPECT_EQ(ended("error"), 1);
  expect_nothing_left();
}

TEST_F(FrontDeskTokensTest, PromptsThatComeAfterAnErrorAreNotGeneratedFor) {
  begin(kKey, 2);
  generate(kKey);
  break_down(0);
  generate(kKey);
  EXPECT_EQ(port_.submits.size(), 1U);
  EXPECT_EQ(flush_events().size(), 1U);
  EXPECT_TRUE(desk_.on_end(0, {kKey, "error", "broken", 200}));
  expect_nothing_left();
}

TEST_F(FrontDeskTokensTest, ARequestThatTurnsOutTooLargeIsAnErrorAndCountsAsRefusedOnce) {
  begin(kKey, 1, kManyTokens);
  begin(kOther, 1, kManyTokens);
  begin({7, 3}, 1, kManyTokens);
  generate({7, 3});
  EXPECT_TRUE(port_.submits.empty());
  EXPECT_EQ(refused(503), 1);
  const std::vector<wire::FrontEvent> events = flush_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].key, (wire::RequestKey{7, 3}));
  EXPECT_EQ(events[0].finish, step::FinishReason::kError);
  EXPECT_EQ(events[0].error_code, static_cast<std::uint32_t>(Code::kResourceExhausted));
  for (std::uint32_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(desk_.on_end(0, {{7, i}, "refused", "", 503}));
  }
  EXPECT_EQ(refused(503), 1);
  expect_nothing_left();
}

TEST_F(FrontDeskTokensTest, CountsARequestOnceWithItsTimesAndTokens) {
  admit(kKey);
  EXPECT_TRUE(desk_.on_begin(0, {kKey, "id-1", 100, 2, true, 70}));
  generate(kKey);
  EXPECT_EQ(series("vllm:prompt_tokens_total"), 0) << "more prompts are to come";
  generate(kKey);
  EXPECT_EQ(series("vllm:prompt_tokens_total"), 4);
  clock_.advance(milliseconds(300));
  produce(0, 0);
  clock_.advance(milliseconds(50));
  produce(1, 0);
  produce(0, 1);
  EXPECT_EQ(series("vllm:time_to_first_token_seconds_count"), 1);
  EXPECT_DOUBLE_EQ(series("vllm:time_to_first_token_seconds_sum"), 0.3);
  EXPECT_EQ(series("vllm:inter_token_latency_seconds_count"), 1);
  EXPECT_DOUBLE_EQ(series("vllm:inter_token_latency_seconds_sum"), 0.05);
  EXPECT_EQ(generated_tokens(), 3) << "as they come";
  EXPECT_EQ(counted_tokens(), 0) << "at its end";
  EXPECT_TRUE(desk_.on_end(0, {kKey, "length", "", 200}));
  EXPECT_TRUE(desk_.on_end(0, {kKey, "length", "", 200}));
  EXPECT_EQ(counted_tokens(), 3);
  EXPECT_EQ(ended("length"), 1);
  EXPECT_DOUBLE_EQ(series("vllm:e2e_request_latency_seconds_sum"), 0.35);
  EXPECT_EQ(metrics_.finished(), 1U);
}

// An attempt that fails before it has given a token has been waited for.
TEST_F(FrontDeskTokensTest, TheTimesOfARequestAreThoseOfTheAttemptThatGaveItsFirstToken) {
  clock_.advance(milliseconds(1));
  begin(kKey);
  generate(kKey);
  clock_.advance(milliseconds(300));
  lose_replica();
  clock_.advance(milliseconds(100));
  get_replica_back();
  ASSERT_EQ(port_.submits.size(), 2U);
  clock_.advance(milliseconds(75));
  wire::TokenUpdate first = token_of(1, 0);
  first.queue_us = 25'000;
  first.prefill_us = 50'000;
  produce(first);
  clock_.advance(milliseconds(500));
  wire::TokenUpdate of_no_first_token = token_of(1, 1);
  of_no_first_token.queue_us = 9'000'000;
  produce(of_no_first_token);
  EXPECT_EQ(series("vllm:request_queue_time_seconds_count"), 0) << "told at its end";
  EXPECT_TRUE(desk_.on_end(0, {kKey, "length", "", 200}));
  EXPECT_DOUBLE_EQ(series("vllm:request_queue_time_seconds_sum"), 0.425);
  EXPECT_DOUBLE_EQ(series("vllm:request_prefill_time_seconds_sum"), 0.05);
  EXPECT_DOUBLE_EQ(series("vllm:request_decode_time_seconds_sum"), 0.5);
  EXPECT_DOUBLE_EQ(series("vllm:request_inference_time_seconds_sum"), 0.55);
  EXPECT_EQ(series("vllm:request_queue_time_seconds_count"), 1);
}

TEST_F(FrontDeskTokensTest, ItsLinesSayByWhatReplicasNameARequestAndWhereItWas) {
  obs::set_log_level(obs::LogLevel::kInfo);
  begin(kKey, 2);
  generate(kKey);
  generate(kKey);
  EXPECT_NE(last_line().find("request_start req=id-1 number=1,2 "), std::string::npos)
      << last_line();
  lose_replica();
  get_replica_back();
  EXPECT_TRUE(desk_.on_end(0, {kKey, "error", "", 503}));
  EXPECT_NE(last_line().find("request_end req=id-1 number=1,2 replicas=0 attempts=2 "),
            std::string::npos)
      << last_line();
  obs::set_log_level(obs::LogLevel::kWarn);
}

}  // namespace
}  // namespace phalanx::desk
