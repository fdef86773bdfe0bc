// SPDX-License-Identifier: Apache-2.0
// Requests whose front dies: another one takes them over.
#include <chrono>
#include <cstddef>
#include <vector>

#include "phalanx/wire/limits.h"

#include "desk_fixture.h"

namespace phalanx::desk {
namespace {

using std::chrono::milliseconds;

constexpr wire::RequestKey kForeign{8, 1};

class FrontDeskAgainTest : public DeskTest {
 protected:
  // What a front that takes the request over sends again: all of begin() and generate().
  void admit_again(const wire::RequestKey& key = kKey, std::size_t front = 1) {
    accepting_ = unavailable("nobody is to be asked for a place again");
    EXPECT_EQ(admit(key, true, front), (wire::Admitted{key, 0, ""}));
    accepting_ = ok();
  }
  void begin_again(const wire::RequestKey& key = kKey,
                   std::uint32_t prompts = 1,
                   std::size_t front = 1) {
    admit_again(key, front);
    EXPECT_TRUE(desk_.on_begin(front, {key, "id-1", 100, prompts, false, 90}));
  }
  void generate_again(const wire::RequestKey& key = kKey,
                      std::uint32_t choices = 1,
                      std::size_t front = 1) {
    generate(key, choices, kMaxTokens, front);
  }

  // All that is told, turn by turn.
  std::vector<wire::FrontEvent> flush_all(std::size_t front = 1) {
    std::vector<wire::FrontEvent> all;
    for (int asked = -1; asked != flushes_asked_;) {
      asked = flushes_asked_;
      for (wire::FrontEvent& event : flush_events(front)) {
        all.push_back(std::move(event));
      }
    }
    return all;
  }

  static std::vector<TokenId> tokens_of(const std::vector<wire::FrontEvent>& events) {
    std::vector<TokenId> tokens;
    for (const wire::FrontEvent& event : events) {
      tokens.push_back(event.finish == step::FinishReason::kError ? -1 : event.token);
    }
    return tokens;
  }

  void end(const wire::RequestKey& key = kKey, std::size_t front = 1) {
    EXPECT_TRUE(desk_.on_end(front, {key, "stop", "", 200}));
  }
};

using Tokens = std::vector<TokenId>;

TEST_F(FrontDeskAgainTest, ARequestThatHasOnlyAPlaceKeepsItAndGoesOnAsANewOne) {
  admit(kKey);
  desk_.on_front_gone(0);
  EXPECT_EQ(desk_.open(), 1U);
  EXPECT_EQ(admission_.requests(), 1U);
  begin_again();
  EXPECT_EQ(admission_.requests(), 1U);
  EXPECT_EQ(admission_.tokens(), 100U);
  generate_again();
  ASSERT_EQ(port_.submits.size(), 1U);
  produce(0, 0);
  EXPECT_EQ(tokens_of(flush_all()), Tokens{'a'});
  end();
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, ATextThatIsOnlyTokenizedIsTakenOver) {
  admit(kKey, false);
  desk_.on_front_gone(0);
  EXPECT_EQ(admit(kKey, false, 1).code, 0U);
  end();
  expect_nothing_left();
  EXPECT_EQ(ended("stop"), 0);
}

TEST_F(FrontDeskAgainTest, ABeginThatComesAgainBooksNothing) {
  begin(kKey, 1, 50);
  EXPECT_TRUE(desk_.on_prompt_part(0, {kKey, Tokens(40)}));
  desk_.on_front_gone(0);
  begin_again();  // with 100
  EXPECT_EQ(admission_.tokens(), 50U);
  EXPECT_TRUE(desk_.on_prompt_part(1, {kKey, Tokens(25)}));
  EXPECT_TRUE(desk_.on_prompt_part(1, {kKey, Tokens(25)})) << "the half of a prompt is forgotten";
  EXPECT_TRUE(desk_.on_generate(1, generate_of(kKey)));
  ASSERT_EQ(port_.submits.size(), 1U);
  EXPECT_EQ(port_.submits[0].prompt_ids, Tokens(50));
  EXPECT_FALSE(desk_.on_begin(1, {kKey, "id-1", 100, 1, false, 0})) << "a third time";
  end();
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, PromptsThatWereDispatchedAreNotDispatchedAgain) {
  begin(kKey, 3);
  generate(kKey, 2);
  generate(kKey);
  EXPECT_TRUE(desk_.on_prompt_part(0, {kKey, {1, 2, 3}}));
  produce(0, 0, 'x');
  desk_.on_front_gone(0);
  produce(2, 0, 'y');

  begin_again(kKey, 3);
  generate_again(kKey, 2);
  EXPECT_TRUE(flush(1).empty()) << "the second has not come again";
  generate_again(kKey);
  EXPECT_EQ(port_.submits.size(), 3U);
  produce(1, 0, 'z');
  EXPECT_EQ(tokens_of(flush_all()), (Tokens{'x', 'y', 'z'}));
  generate_again(kKey);
  ASSERT_EQ(port_.submits.size(), 4U);
  EXPECT_EQ(port_.submits[3].prompt_ids, (Tokens{'p', 'q'}));
  produce(3, 0, 'w');
  const std::vector<wire::FrontEvent> events = flush_all();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].prompt, 2U);
  EXPECT_EQ(series("vllm:prompt_tokens_total"), 6);
  end();
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, ToldAgainFromTheFirstEventAndThenOn) {
  begin(kKey);
  generate(kKey);
  wire::TokenUpdate first = token_of(0, 0, 'a');
  first.logprob = -0.5F;
  first.top_logprobs = {{'a', -0.5F}, {'y', -2.0F}};
  first.cached_tokens = 1;
  produce(first);
  produce(0, 1, 'b');
  const std::vector<wire::FrontEvent> before = flush_events();
  produce(0, 2, 'c');  // on its way when the front dies
  desk_.on_front_gone(0);
  EXPECT_TRUE(port_.cancels.empty()) << "it goes on";
  produce(0, 3, 'd');
  EXPECT_TRUE(flush().empty());

  begin_again();
  EXPECT_TRUE(desk_.on_prompt_part(1, {kKey, {'p'}}));
  EXPECT_TRUE(flush(1).empty());
  EXPECT_TRUE(desk_.on_generate(1, generate_of(kKey)));
  produce(0, 4, 'e');  // its last one
  const std::vector<wire::FrontEvent> events = flush_all();
  EXPECT_EQ(tokens_of(events), (Tokens{'a', 'b', 'c', 'd', 'e'}));
  ASSERT_GE(events.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(events[i], before[i]);
  }
  EXPECT_EQ(events.back().finish, step::FinishReason::kLength);
  EXPECT_TRUE(flush_all().empty());
  end();
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, WhatIsToldAgainWaitsForAFrontThatIsBehind) {
  begin(kKey);
  generate(kKey);
  produce(0, 0, 'a');
  desk_.on_front_gone(0);
  begin_again();
  generate_again();
  behind_ = true;
  const int asked = flushes_asked_;
  EXPECT_TRUE(flush_events(1).empty());
  EXPECT_EQ(flushes_asked_, asked + 1) << "it is tried again later";
  produce(0, 1, 'b');
  EXPECT_TRUE(flush_events(1).empty()) << "in their order";
  behind_ = false;
  EXPECT_EQ(tokens_of(flush_events(1)), (Tokens{'a', 'b'}));
  produce(0, 2, 'c');
  behind_ = true;
  EXPECT_EQ(tokens_of(flush_events(1)), (Tokens{'c'})) << "what happens now does not wait";
  end();
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, ManyEventsAreToldInPiecesWithLiveOnesBehindThem) {
  constexpr std::uint32_t kTokens = 1'500;
  constexpr std::size_t kPiece = 512;
  begin(kKey, 1, 4'000);
  generate(kKey, 2, 4 * kTokens);
  begin(kForeign, 1, 100, 2);
  generate(kForeign, 1, kMaxTokens, 2);
  std::uint32_t made = 0;
  const auto make = [&] {
    produce(made % 2, made / 2, static_cast<TokenId>(made));
    ++made;
  };
  while (made < kTokens) {
    make();
  }
  flush();
  desk_.on_front_gone(0);
  begin_again();
  generate_again(kKey, 2);
  produce(2, 0);  // of another front

  std::vector<std::size_t> turns;
  Tokens told;
  for (int turn = 0; turn < 3; ++turn) {
    const Tokens tokens = tokens_of(flush_events(1));
    if (turns.empty()) {
      EXPECT_EQ(sent_.size(), 2U) << "the other one is told at once";
    }
    turns.push_back(tokens.size());
    told.insert(told.end(), tokens.begin(), tokens.end());
    make();
  }
  EXPECT_EQ(turns, (std::vector<std::size_t>{kPiece, kPiece, kTokens + 2 - 2 * kPiece}));
  ASSERT_EQ(flush_events(1).size(), 1U) << "now as it happens";
  ASSERT_EQ(told.size() + 1, made);
  for (std::uint32_t i = 0; i < told.size(); ++i) {
    ASSERT_EQ(told[i], static_cast<TokenId>(i)) << "in order, none twice and none left out";
  }
  end();
  EXPECT_EQ(counted_tokens(), made);
}

TEST_F(FrontDeskAgainTest, TakenOverMoreThanOnceAlsoInTheMiddleOfBeingToldAgain) {
  constexpr std::uint32_t kTokens = 700;
  begin(kKey, 1, 4'000);
  generate(kKey, 1, 2 * kTokens);
  for (std::uint32_t i = 0; i < kTokens; ++i) {
    produce(0, i);
  }
  desk_.on_front_gone(0);
  begin_again();
  generate_again();
  EXPECT_EQ(flush_events(1).size(), 512U);
  desk_.on_front_gone(1);
  EXPECT_TRUE(flush(1).empty());
  begin_again(kKey, 1, 2);
  desk_.on_front_gone(2);
  begin_again(kKey, 1, 1);
  generate_again();
  EXPECT_EQ(flush_all().size(), kTokens);
  produce(0, kTokens);
  EXPECT_EQ(flush_all().size(), 1U);
  end();
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, ARequestThatHasEndedIsToldAgainAndCountsOnce) {
  begin(kKey);
  generate(kKey, 1, 2);
  produce(0, 0, 'a');
  produce(0, 1, 'b');
  flush();
  end(kKey, 0);
  expect_nothing_left();
  desk_.on_front_gone(0);
  begin_again();
  EXPECT_EQ(desk_.open(), 0U);
  EXPECT_EQ(admission_.requests(), 0U);
  generate_again();
  EXPECT_EQ(tokens_of(flush_all()), (Tokens{'a', 'b'}));
  desk_.on_stop(1, {kKey, 0, 0, 0});
  end();
  end();
  desk_.on_front_gone(1);
  begin_again(kKey, 1, 2);
  generate_again(kKey, 1, 2);
  EXPECT_EQ(flush_all(2).size(), 2U) << "as often as it is asked for";
  EXPECT_EQ(port_.submits.size(), 1U);
  EXPECT_EQ(ended("stop"), 1);
  EXPECT_EQ(counted_tokens(), 2);
  EXPECT_EQ(metrics_.finished(), 1U);
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, ARequestThatWasEndedTooEarlyIsAnErrorForWhoeverTakesItOver) {
  begin(kKey, 2);
  generate(kKey);
  produce(0, 0, 'a');
  EXPECT_TRUE(desk_.on_end(0, {kKey, "client_gone", "", 200}));
  desk_.on_front_gone(0);
  begin_again(kKey, 2);
  generate_again();
  EXPECT_EQ(tokens_of(flush_all()), (Tokens{'a', -1})) << "the rest never comes";
  generate_again();
  EXPECT_EQ(port_.submits.size(), 1U);
  EXPECT_TRUE(flush_all().empty());
  end();
  EXPECT_EQ(metrics_.finished(), 0U) << "not all its prompts had come";
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, AFailedRequestFailsAgain) {
  begin(kKey, 2);
  generate(kKey);
  produce(0, 0, 'a');
  break_down(0);
  generate(kKey);
  flush();
  desk_.on_front_gone(0);
  begin_again(kKey, 2);
  generate_again();
  EXPECT_EQ(tokens_of(flush_all()), (Tokens{'a', -1}));
  generate_again();
  EXPECT_EQ(port_.submits.size(), 1U);
  EXPECT_TRUE(flush_all().empty());
  EXPECT_TRUE(desk_.on_end(1, {kKey, "error", "broken", 200}));
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, ARequestThatFailsWhileItIsNobodysFailsForWhoeverTakesItOver) {
  begin(kKey);
  generate(kKey);
  desk_.on_front_gone(0);
  dispatcher_.fail_all(unavailable("the server is shutting down"));
  EXPECT_TRUE(flush().empty());
  begin_again();
  generate_again();
  const std::vector<wire::FrontEvent> events = flush_all();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].error_message, "the server is shutting down");
  EXPECT_TRUE(desk_.on_end(1, {kKey, "error", "", 200}));
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, ARequestThatWasTooLargeIsToldSoAtItsBeginAndIsRefusedOnce) {
  begin(kKey, 1, 1'000'000);
  begin(kOther, 1, 1'000'000);
  begin(kForeign, 1, 1'000'000);
  EXPECT_EQ(refused(503), 1);
  flush();
  desk_.on_front_gone(0);
  begin_again(kForeign);
  EXPECT_EQ(tokens_of(flush_all()), Tokens{-1});
  generate_again(kForeign);
  EXPECT_TRUE(port_.submits.empty());
  EXPECT_TRUE(desk_.on_end(1, {kForeign, "refused", "", 503}));
  EXPECT_EQ(refused(503), 1);
  desk_.forget(kKey.connection);
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, AStopThatComesAgainChangesNothing) {
  begin(kKey);
  generate(kKey, 2, 4);
  for (std::uint32_t i = 0; i < 3; ++i) {
    produce(0, i);
  }
  produce(1, 0);
  desk_.on_stop(0, {kKey, 0, 0, 1});
  desk_.on_front_gone(0);
  begin_again();
  generate_again(kKey, 2);
  EXPECT_EQ(flush_all().size(), 4U);
  desk_.on_stop(1, {kKey, 0, 0, 1});
  EXPECT_EQ(port_.cancels.size(), 1U);
  produce(0, 3);
  produce(1, 1);
  EXPECT_EQ(flush_all().size(), 1U) << "the other choice goes on";
  end();
  EXPECT_EQ(counted_tokens(), 4);
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, AStopThatWasNotSentYetComesFromTheNextFront) {
  begin(kKey);
  generate(kKey);
  produce(0, 0);
  produce(0, 1);
  desk_.on_front_gone(0);
  produce(0, 2);
  begin_again();
  generate_again();
  EXPECT_EQ(flush_all().size(), 3U);
  desk_.on_stop(1, {kKey, 0, 0, 0});
  end();
  EXPECT_EQ(counted_tokens(), 1);
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, WhoeverTakesItForAnotherRequestHearsOfAFailureAndIsNotAtFault) {
  begin(kKey, 2);
  generate(kKey, 2);
  generate(kKey);
  produce(0, 0);
  begin(kForeign);
  generate(kForeign);
  desk_.on_front_gone(0);
  begin_again(kKey, 1);
  EXPECT_EQ(tokens_of(flush_all()), Tokens{-1});
  for (int i = 0; i < 4; ++i) {
    generate_again(kKey, 7);
  }
  begin_again(kForeign);
  generate_again(kForeign, 3);
  EXPECT_EQ(tokens_of(flush_all()), Tokens{-1});
  EXPECT_EQ(port_.submits.size(), 4U);
  end();
  end(kForeign);
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, OnlyWhatIsNobodysIsTakenOver) {
  begin(kKey);
  EXPECT_FALSE(desk_.on_admit(1, {kKey, "/", 1, true})) << "its front lives";
  desk_.on_front_gone(1);
  desk_.on_front_gone(0);
  EXPECT_FALSE(desk_.on_begin(1, {kKey, "id-1", 1, 1, false, 0})) << "it has not asked for it";
  EXPECT_FALSE(desk_.on_prompt_part(1, {kKey, {1}}));
  end(kKey, 1);
  EXPECT_EQ(desk_.open(), 1U) << "it is not its own to end";
  admit_again();
  EXPECT_FALSE(desk_.on_prompt_part(1, {kKey, {1}})) << "its Begin comes first";
  EXPECT_FALSE(desk_.on_generate(1, generate_of(kKey)));
}

// ---- what nobody takes over

TEST_F(FrontDeskAgainTest, WhatIsForgottenEndsOnce) {
  begin(kKey);
  generate(kKey);
  produce(0, 0);
  begin(kForeign);
  generate(kForeign);
  admit({9, 1});
  desk_.on_front_gone(0);
  desk_.forget(kKey.connection);
  desk_.forget(kKey.connection);
  EXPECT_EQ(port_.cancels, std::vector<wire::SequenceKey>{port_.submits[0].key});
  EXPECT_EQ(desk_.open(), 2U) << "those of other connections go on";
  EXPECT_EQ(ended("error"), 1);
  EXPECT_EQ(counted_tokens(), 1);
  EXPECT_EQ(admit(kKey, true, 1).code, 0U);
  EXPECT_FALSE(desk_.on_prompt_part(1, {kKey, {1}})) << "it is a new one";
  end();
  desk_.forget(9);
  desk_.forget(kForeign.connection);
  EXPECT_EQ(ended("error"), 2) << "that one had nothing to end";
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, RequestsOfAClientThatHasLeftEndAsThat) {
  begin(kKey);
  generate(kKey);
  produce(0, 0);
  begin(kForeign);
  generate(kForeign);
  desk_.on_front_gone(0);
  desk_.forget_client(kKey.connection);
  EXPECT_EQ(port_.cancels, std::vector<wire::SequenceKey>{port_.submits[0].key});
  EXPECT_EQ(desk_.open(), 1U) << "those of other connections go on";
  EXPECT_FALSE(desk_.has_open(kKey.connection));
  desk_.forget(kKey.connection);
  EXPECT_EQ(ended("abort"), 1);
  EXPECT_EQ(ended("error"), 0);
  EXPECT_EQ(counted_tokens(), 1);
  desk_.forget_client(kForeign.connection);
  EXPECT_EQ(ended("abort"), 2);
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, WhatHasALivingFrontIsItsOwnToEndAndThenGone) {
  begin(kKey);
  generate(kKey);
  desk_.forget(kKey.connection);
  EXPECT_EQ(desk_.open(), 1U);
  produce(0, 0);
  EXPECT_EQ(flush_events().size(), 1U);
  end(kKey, 0);
  EXPECT_EQ(admit(kKey).code, 0U) << "nothing was kept of it";
  end(kKey, 0);
  begin(kForeign);
  generate(kForeign);
  desk_.forget(kForeign.connection);
  desk_.on_front_gone(0);
  EXPECT_EQ(ended("error"), 1) << "nobody can take it over";
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, WhoeverGetsAConnectionAtRestBeginsItsKeysAnew) {
  begin(kKey);
  generate(kKey);
  desk_.forget(kKey.connection);  // its front has let go of it, and says the End only then
  EXPECT_EQ(admit(kKey, true, 1).code, 0U);
  EXPECT_EQ(desk_.open(), 1U);
  end(kKey, 0);
  EXPECT_EQ(desk_.open(), 1U) << "that was of the one before";
  end(kKey, 1);
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, AnEndedRequestIsForgottenWithItsConnectionOrTheNextRequest) {
  for (std::uint32_t ordinal = 1; ordinal <= 2; ++ordinal) {
    begin({7, ordinal});
    generate({7, ordinal}, 1, 1);
    produce(ordinal - 1, 0);
    flush();
    end({7, ordinal}, 0);
  }
  EXPECT_FALSE(desk_.on_admit(0, {{7, 2}, "/", 1, true})) << "it is kept";
  EXPECT_EQ(admit({7, 1}).code, 0U) << "the one before is not";
  end({7, 1}, 0);
  desk_.forget(7);
  EXPECT_EQ(admit({7, 2}).code, 0U);
  end({7, 2}, 0);
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, WhatWasKeptOfALongRequestIsFreedInTurns) {
  constexpr std::uint32_t kTokens = 20'000;
  begin(kKey);
  generate(kKey, 1, kTokens);
  for (std::uint32_t i = 0; i < kTokens; ++i) {
    produce(0, i, static_cast<TokenId>(i));
  }
  flush();
  end(kKey, 0);
  desk_.forget(kKey.connection);
  int turns = 0;
  for (int asked = flushes_asked_ - 1; asked != flushes_asked_; ++turns) {
    asked = flushes_asked_;
    EXPECT_TRUE(flush().empty());
  }
  EXPECT_EQ(turns, 5);
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, WhoeverAsksForTheNextRequestIsDoneWithTheOneBefore) {
  begin(kKey);
  generate(kKey);
  desk_.on_front_gone(0);
  EXPECT_EQ(admit(kOther, true, 1).code, 0U);
  EXPECT_EQ(desk_.open(), 1U);
  EXPECT_EQ(ended("error"), 1);
  end(kOther);
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, ADeathIsNobodyElses) {
  for (std::uint32_t front = 0; front < 3; ++front) {
    const wire::RequestKey key{front + 1, 1};
    begin(key, 1, 100, front);
    generate(key, 1, kMaxTokens, front);
    produce(front, 0);
  }
  desk_.on_front_gone(1);
  EXPECT_TRUE(port_.cancels.empty());
  EXPECT_EQ(desk_.open(), 3U);
  EXPECT_TRUE(flush(1).empty());
  EXPECT_EQ(sent_.size(), 2U) << "what the others are to hear";
  for (std::uint32_t front = 0; front < 3; ++front) {
    produce(front, 1);
  }
  desk_.flush();
  EXPECT_EQ(sent_.size(), 4U);
  for (std::uint32_t front = 0; front < 3; ++front) {
    desk_.on_front_gone(front);
    desk_.forget(front + 1);
  }
  EXPECT_EQ(ended("error"), 3);
  expect_nothing_left();
}

TEST_F(FrontDeskAgainTest, TimesGoOnOverADeath) {
  begin(kKey);
  generate(kKey, 1, 2);
  clock_.advance(milliseconds(300));
  produce(0, 0);
  desk_.on_front_gone(0);
  clock_.advance(milliseconds(50));
  produce(0, 1);
  begin_again();
  generate_again();
  EXPECT_EQ(flush_all().size(), 2U);
  clock_.advance(milliseconds(10));
  end();
  EXPECT_EQ(series("vllm:time_to_first_token_seconds_count"), 1);
  EXPECT_EQ(series("vllm:inter_token_latency_seconds_count"), 1);
  EXPECT_DOUBLE_EQ(series("vllm:e2e_request_latency_seconds_sum"), 0.36);
}

}  // namespace
}  // namespace phalanx::desk
