// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/limits.h"
#include "phalanx/wire/limits.h"

#include "desk_fixture.h"

namespace phalanx::desk {
namespace {

using FrontDeskTest = DeskTest;

// ---- places

TEST_F(FrontDeskTest, APlaceIsHeldFromTheAdmitToTheEnd) {
  EXPECT_EQ(admit(kKey), (wire::Admitted{kKey, 0, ""}));
  EXPECT_EQ(desk_.open(), 1U);
  EXPECT_EQ(admission_.tokens(), 3U) << "of a body of ten bytes";
  ASSERT_TRUE(desk_.on_begin(0, {kKey, "id-1", 25, 1, false, 0}));
  EXPECT_EQ(admission_.tokens(), 25U) << "as it says";
  generate(kKey);
  EXPECT_TRUE(desk_.on_end(0, {kKey, "client_gone", "", 200}));
  expect_nothing_left();
  EXPECT_FALSE(desk_.on_prompt_part(0, {kKey, {1}})) << "it is over";
  EXPECT_FALSE(desk_.on_admit(0, {kKey, "/", 1, true}));
  EXPECT_FALSE(desk_.on_end(0, {kKey, "as it pleases", "", 200})) << "each is a series of a metric";
}

TEST_F(FrontDeskTest, WhoDoesNotHaveAConnectionChangesNothingOfItsRequests) {
  owner_ = 0;
  begin(kKey);
  generate(kKey);
  EXPECT_TRUE(desk_.on_end(0, {kKey, "stop", "", 200}));
  EXPECT_EQ(admit(kOther).code, 0U);
  sent_.clear();
  EXPECT_FALSE(desk_.on_admit(1, {{7, 3}, "/", 10, true}));
  EXPECT_FALSE(desk_.on_admit(0, {{8, 1}, "/", 10, true})) << "nobody has that one";
  EXPECT_TRUE(sent_.empty());
  EXPECT_EQ(desk_.open(), 1U);
  desk_.on_front_gone(0);
  EXPECT_FALSE(desk_.on_admit(1, {kOther, "/", 10, true})) << "its front is dead";
  owner_ = 1;
  EXPECT_EQ(admit(kOther, true, 1).code, 0U);
  EXPECT_EQ(desk_.open(), 1U);
  EXPECT_TRUE(desk_.on_end(1, {kOther, "client_gone", "", 200}));
  expect_nothing_left();
}

TEST_F(FrontDeskTest, OfARequestThatHasEndedNothingIsKeptBehindTheNextOne) {
  for (std::uint32_t ordinal = 9; ordinal >= 8; --ordinal) {
    begin({7, ordinal});
    generate({7, ordinal});
    EXPECT_TRUE(desk_.on_end(0, {{7, ordinal}, "stop", "", 200}));
  }
  EXPECT_EQ(admit({7, 9}).code, 0U) << "whatever order its front numbers them in";
}

TEST_F(FrontDeskTest, ARequestIsUnansweredUntilItsConnectionRestsOrEnds) {
  EXPECT_EQ(desk_.unanswered(), std::vector<std::uint64_t>());
  begin({9, 1});
  begin(kKey);
  EXPECT_EQ(desk_.unanswered(), (std::vector<std::uint64_t>{7, 9}));
  generate(kKey);
  EXPECT_TRUE(desk_.on_end(0, {kKey, "stop", "", 200}));
  EXPECT_EQ(admit(kOther).code, 0U);
  EXPECT_EQ(desk_.unanswered(), (std::vector<std::uint64_t>{7, 9})) << "each of them once";
  EXPECT_TRUE(desk_.on_end(0, {kOther, "client_gone", "", 200}));
  EXPECT_TRUE(desk_.on_end(0, {{9, 1}, "stop", "", 200}));
  EXPECT_EQ(desk_.unanswered(), (std::vector<std::uint64_t>{9})) << "it may still be sent";
  desk_.on_front_gone(0);
  EXPECT_EQ(desk_.unanswered(), (std::vector<std::uint64_t>{9}));
  desk_.forget(9);
  EXPECT_EQ(desk_.unanswered(), std::vector<std::uint64_t>());
}

TEST_F(FrontDeskTest, GivesNoPlaceWhileNothingIsServedButReadsTokensOfATextOnly) {
  accepting_ = unavailable("it is loading");
  EXPECT_EQ(
      admit(kKey),
      (wire::Admitted{kKey, static_cast<std::uint32_t>(Code::kUnavailable), "it is loading"}));
  EXPECT_EQ(desk_.open(), 0U);
  EXPECT_EQ(refused(503), 1);
  EXPECT_EQ(admit(kKey, false).code, 0U);
  EXPECT_EQ(desk_.open(), 1U);
  EXPECT_TRUE(desk_.on_end(0, {kKey, "stop", "", 200}));
  expect_nothing_left();
  EXPECT_EQ(ended("stop"), 0) << "nothing was generated";
}

TEST_F(FrontDeskTest, GivesNoPlaceBeyondAdmissionUntilOneIsFree) {
  for (std::uint32_t i = 1; i <= 64; ++i) {
    EXPECT_EQ(admit({7, i}).code, 0U);
  }
  const wire::Admitted answer = admit({7, 65});
  EXPECT_EQ(answer.code, static_cast<std::uint32_t>(Code::kResourceExhausted));
  EXPECT_EQ(answer.message, "the server already holds 64 requests (limit 64); try again later");
  EXPECT_EQ(refused(503), 1);
  EXPECT_EQ(desk_.open(), 64U);
  EXPECT_FALSE(desk_.on_begin(0, {{7, 65}, "id-1", 1, 1, false, 0}));
  EXPECT_TRUE(desk_.on_end(0, {{7, 65}, "refused", "", 503}));
  EXPECT_EQ(refused(503), 1) << "it had no place to give back";
  EXPECT_TRUE(desk_.on_end(0, {{7, 1}, "refused", "", 400}));
  EXPECT_EQ(admit({7, 66}).code, 0U);
}

TEST_F(FrontDeskTest, ALongReasonIsCutToWhatARecordHolds) {
  accepting_ = unavailable(std::string(2 * wire::kMaxErrorBytes, 'x'));
  EXPECT_EQ(admit(kKey).message.size(), wire::kMaxErrorBytes);
}

TEST_F(FrontDeskTest, ASecondPlaceForAKeyIsAFault) {
  admit(kKey);
  EXPECT_EQ(desk_.on_admit(0, {kKey, "/", 1, true}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(desk_.open(), 1U);
  EXPECT_FALSE(desk_.on_admit(1, {kKey, "/", 1, true})) << "it is another front's";
  EXPECT_EQ(desk_.open(), 1U);
}

TEST_F(FrontDeskTest, APlaceGivenBackBeforeTheRequestBeganCountsAsRefused) {
  admit(kKey);
  EXPECT_TRUE(desk_.on_end(0, {kKey, "refused", "", 400}));
  EXPECT_EQ(refused(400), 1);
  admit(kOther, false);
  EXPECT_TRUE(desk_.on_end(0, {kOther, "refused", "", 400}));
  EXPECT_EQ(refused(400), 1) << "it generates nothing";
  admit({7, 3});
  EXPECT_TRUE(desk_.on_end(0, {{7, 3}, "client_gone", "", 200}));
  EXPECT_EQ(refused(200), 0);
  EXPECT_EQ(ended("abort"), 0);
  expect_nothing_left();
}

TEST_F(FrontDeskTest, AnEndOfNobodyIsHarmless) {
  begin(kKey);
  EXPECT_TRUE(desk_.on_end(1, {kKey, "refused", "", 400}));
  EXPECT_TRUE(desk_.on_end(0, {kOther, "refused", "", 400}));
  EXPECT_EQ(desk_.open(), 1U);
  EXPECT_EQ(refused(400), 0);
}

// ---- what a front says

TEST_F(FrontDeskTest, BeginsOnceAndOnlyWithAPlaceToGenerate) {
  const wire::Begin wish{kKey, "id-1", 100, 1, false, 0};
  EXPECT_FALSE(desk_.on_begin(0, wish));
  admit(kKey);
  EXPECT_FALSE(desk_.on_begin(1, wish)) << "it is another front's";
  EXPECT_FALSE(desk_.on_prompt_part(0, {kKey, {1}})) << "it has not begun";
  EXPECT_FALSE(desk_.on_generate(0, generate_of(kKey)));
  EXPECT_TRUE(desk_.on_begin(0, wish));
  EXPECT_FALSE(desk_.on_begin(0, wish));
  admit(kOther, false);
  EXPECT_FALSE(desk_.on_begin(0, {kOther, "id-2", 100, 1, false, 0}));
}

TEST_F(FrontDeskTest, MoreTokensThanWereSaidAreAFault) {
  begin(kKey, 2, 5);
  EXPECT_FALSE(desk_.on_prompt_part(0, {kKey, std::vector<TokenId>(6)}));
  generate(kKey);
  EXPECT_TRUE(desk_.on_prompt_part(0, {kKey, {1, 2}}));
  EXPECT_FALSE(desk_.on_prompt_part(0, {kKey, {3, 4}})) << "over both prompts";
  EXPECT_TRUE(desk_.on_prompt_part(0, {kKey, {3}}));
}

TEST_F(FrontDeskTest, APromptBeyondAllPromptsIsAFault) {
  begin(kKey, 1, 2 * step::kMaxPromptTokens);
  for (std::size_t i = 0; i < step::kMaxPromptTokens; i += wire::kMaxPromptPart) {
    ASSERT_TRUE(desk_.on_prompt_part(0, {kKey, std::vector<TokenId>(wire::kMaxPromptPart)}));
  }
  EXPECT_FALSE(desk_.on_prompt_part(0, {kKey, {1}}));
}

TEST_F(FrontDeskTest, MorePromptsThanWereSaidAreAFault) {
  begin(kKey, 2);
  generate(kKey);
  EXPECT_FALSE(desk_.on_generate(0, generate_of(kKey))) << "a prompt has tokens";
  generate(kKey);
  EXPECT_FALSE(desk_.on_prompt_part(0, {kKey, {1}}));
  EXPECT_FALSE(desk_.on_generate(0, generate_of(kKey)));
  EXPECT_EQ(port_.submits.size(), 2U);
}

TEST_F(FrontDeskTest, MoreChoicesThanARequestMayHaveAreAFault) {
  begin(kKey, 2);
  generate(kKey, wire::kMaxFrontChoices - 1);
  EXPECT_TRUE(desk_.on_prompt_part(0, {kKey, {1}}));
  EXPECT_FALSE(desk_.on_generate(0, generate_of(kKey, 2)));
  EXPECT_TRUE(desk_.on_generate(0, generate_of(kKey, 1)));
}

TEST_F(FrontDeskTest, DispatchesAPromptThatCameInPartsWhole) {
  begin(kKey, 2);
  begin(kOther);
  EXPECT_TRUE(desk_.on_prompt_part(0, {kKey, {1, 2}}));
  EXPECT_TRUE(desk_.on_prompt_part(0, {kOther, {8}}));
  EXPECT_TRUE(desk_.on_prompt_part(0, {kKey, {3}}));
  wire::Generate wish{kKey, 2, {}, {.max_tokens = 9, .stop_token_ids = {4, 6}}, "salt"};
  wish.sampling.seed = 41;
  wish.sampling.logit_bias = {{5, -1.0F}};
  EXPECT_TRUE(port_.submits.empty()) << "it is not complete";
  EXPECT_TRUE(desk_.on_generate(0, wish));
  EXPECT_TRUE(desk_.on_prompt_part(0, {kKey, {4}}));
  EXPECT_TRUE(desk_.on_generate(0, generate_of(kKey)));
  EXPECT_TRUE(desk_.on_generate(0, generate_of(kOther)));

  ASSERT_EQ(port_.submits.size(), 4U);
  for (std::uint32_t choice = 0; choice < 2; ++choice) {
    const wire::Submit& submit = port_.submits[choice];
    EXPECT_EQ(submit.key.choice, ChoiceIndex(choice));
    EXPECT_EQ(submit.prompt_ids, (std::vector<TokenId>{1, 2, 3}));
    EXPECT_EQ(submit.sampling, wish.sampling);
    EXPECT_EQ(submit.stop, wish.stop);
    EXPECT_EQ(submit.cache_salt, "salt");
  }
  EXPECT_EQ(port_.submits[0].key.request, port_.submits[1].key.request);
  EXPECT_EQ(port_.submits[2].prompt_ids, std::vector<TokenId>{4});
  EXPECT_EQ(port_.submits[2].sampling.logit_bias.size(), 0U);
  EXPECT_EQ(port_.submits[2].cache_salt, "");
  EXPECT_EQ(port_.submits[3].prompt_ids, std::vector<TokenId>{8});
}

}  // namespace
}  // namespace phalanx::desk
