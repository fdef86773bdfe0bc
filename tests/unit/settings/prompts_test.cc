// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include "phalanx/settings/options.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/limits.h"

namespace phalanx::settings {
namespace {

TEST(Prompts, SayNothingOfWhatIsNotGiven) {
  Options options;
  options.prompts = {"a", ""};
  const auto prompts = prompts_of(options);
  ASSERT_TRUE(prompts) << prompts.error().message();
  EXPECT_EQ(prompts->texts, options.prompts);
  EXPECT_EQ(prompts->how, (wire::RunPrompts{.max_tokens = 256}));
  EXPECT_TRUE(wire::check(wire::LeaderToFront(prompts->how)));
}

TEST(Prompts, TakeOptionsAlong) {
  Options options;
  options.prompts = {"a"};
  options.apply_chat_template = false;
  options.max_tokens = 7;
  options.temperature = 0.0;
  options.seed = 0;
  const auto prompts = prompts_of(options);
  ASSERT_TRUE(prompts);
  EXPECT_EQ(prompts->how,
            (wire::RunPrompts{.apply_chat_template = false,
                              .max_tokens = 7,
                              .temperature = 0.0F,
                              .is_seeded = true,
                              .seed = 0}));
}

TEST(Prompts, BeyondWhatAFrontIsGivenAreRefused) {
  Options options;
  options.prompts = {std::string(wire::kMaxPromptsBytes, 'x')};
  EXPECT_TRUE(prompts_of(options));
  options.prompts.emplace_back("y");
  const auto prompts = prompts_of(options);
  ASSERT_FALSE(prompts);
  EXPECT_EQ(prompts.error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace phalanx::settings
