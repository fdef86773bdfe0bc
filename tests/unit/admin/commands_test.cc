// SPDX-License-Identifier: Apache-2.0
#include "phalanx/admin/commands.h"

#include <gtest/gtest.h>

namespace phalanx::admin {
namespace {

TEST(AdminCommand, ComesBackFromItsName) {
  for (const char* name : {"status", "ping", "drain", "resume", "restart", "reload"}) {
    const auto command = command_named(name);
    ASSERT_TRUE(command) << name;
    EXPECT_EQ(to_string(*command), name);
  }
  EXPECT_EQ(command_named("restart"), wire::AdminCommand::kRestart);
  EXPECT_FALSE(command_named("stop"));
  EXPECT_FALSE(command_named(""));
}

TEST(AdminCommand, OfAReplicaTakesItsNumber) {
  EXPECT_TRUE(takes_replica(wire::AdminCommand::kDrain));
  EXPECT_TRUE(takes_replica(wire::AdminCommand::kResume));
  EXPECT_TRUE(takes_replica(wire::AdminCommand::kRestart));
  EXPECT_FALSE(takes_replica(wire::AdminCommand::kReload));
}

TEST(AdminOutcome, IsTheServersOwnError) {
  EXPECT_TRUE(outcome_of(wire::AdminDone{}));
  const Status refused = outcome_of(wire::AdminRefused{"there is no replica 3"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "there is no replica 3");
  EXPECT_EQ(refused.error().code(), Code::kFailedPrecondition);
  EXPECT_FALSE(outcome_of(wire::ServerStatus{}));
}

TEST(AdminOutcome, ThatIsOneForNowIsSo) {
  for (const Status& outcome :
       {Status(resource_exhausted("too many")), Status(invalid_argument("what?"))}) {
    const bool for_now = outcome.error().code() == Code::kResourceExhausted;
    const wire::AdminAnswer answer = answer_of(outcome);
    EXPECT_EQ(std::get<wire::AdminRefused>(answer).for_now, for_now);
    EXPECT_EQ(outcome_of(answer).error().code(),
              for_now ? Code::kResourceExhausted : Code::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace phalanx::admin
