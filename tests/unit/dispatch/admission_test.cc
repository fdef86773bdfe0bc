// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/admission.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::dispatch {
namespace {

TEST(Admission, RefusesBeyondTheRequestLimitAndRecovers) {
  Admission admission({2, 1000});
  std::optional<Admission::Ticket> first = *admission.admit(10);
  const Admission::Ticket second = *admission.admit(10);
  const auto refused = admission.admit(10);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(refused.error().message(),
            "the server already holds 2 requests (limit 2); try again later");
  first.reset();
  EXPECT_TRUE(admission.admit(10));
}

TEST(Admission, CountsBytesFirstAndTokensAfterwards) {
  Admission admission({10, 100});
  const Admission::Ticket small[] = {*admission.admit(6), *admission.admit(6), *admission.admit(6)};
  const Admission::Ticket first = *admission.admit(37);
  Admission::Ticket second = *admission.admit(37);
  EXPECT_FALSE(admission.admit(20));
  EXPECT_TRUE(second.correct(7));
  EXPECT_EQ(admission.tokens(), 62U);
  EXPECT_TRUE(admission.admit(20));
}

TEST(Admission, AdmitsALargeRequestWhenNothingElseIsThere) {
  Admission admission({10, 100});
  const auto ticket = admission.admit(5000);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(admission.tokens(), 37U);
}

TEST(Admission, LimitsHoweverSmallTheLimitIs) {
  for (const std::uint64_t limit : {1U, 2U, 3U}) {
    Admission admission({10, limit});
    std::vector<Admission::Ticket> held;
    for (auto ticket = admission.admit(500); ticket; ticket = admission.admit(500)) {
      held.push_back(*std::move(ticket));
      ASSERT_LE(held.size(), limit);
    }
    EXPECT_FALSE(held.empty());
  }
}

TEST(Admission, AdmitsALargeBodyBesideASmallOne) {
  Admission admission({10, 1600});
  const auto small = admission.admit(5);
  const auto large = admission.admit(8'000'000);
  ASSERT_TRUE(large);
  const auto other = admission.admit(8'000'000);
  ASSERT_TRUE(other);
  EXPECT_FALSE(admission.admit(8'000'000));
  EXPECT_TRUE(admission.admit(5));
}

TEST(Admission, IsEmptyWhenEveryTicketIsGone) {
  Admission admission({10, 100});
  {
    Admission::Ticket ticket = *admission.admit(5);
    Admission::Ticket moved = std::move(ticket);
    EXPECT_TRUE(moved.correct(9));
    EXPECT_EQ(admission.requests(), 1U);
  }
  EXPECT_EQ(admission.requests(), 0U);
  EXPECT_EQ(admission.tokens(), 0U);
}

TEST(Admission, LargeBodiesShutNobodyOut) {
  Admission admission({100, 1600});
  Admission::Ticket first = *admission.admit(5);
  EXPECT_TRUE(first.correct(1'000'000));
  EXPECT_EQ(admission.tokens(), 600U) << "half of what is there for large ones";
  Admission::Ticket second = *admission.admit(5);
  EXPECT_TRUE(second.correct(1'000'000));
  Admission::Ticket third = *admission.admit(5);
  const Status refused = third.correct(101);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(refused.error().message(),
            "the server already holds large requests of 1200 tokens (limit 1200); try again later");
  EXPECT_EQ(admission.tokens(), 1205U) << "as before";
  EXPECT_FALSE(admission.admit(101));
  EXPECT_TRUE(third.correct(100));
  std::vector<Admission::Ticket> small;
  for (int i = 0; i < 3; ++i) {
    small.push_back(*admission.admit(5));
    EXPECT_TRUE(small.back().correct(100));
  }
  EXPECT_FALSE(admission.admit(5)) << "full of work, not of one kind of it";
  small.clear();
  { const Admission::Ticket gone = std::move(first); }
  EXPECT_TRUE(third.correct(500)) << "it has become large";
  EXPECT_FALSE(admission.admit(101));
  EXPECT_TRUE(third.correct(10)) << "and small";
  EXPECT_TRUE(admission.admit(101));
}

}  // namespace
}  // namespace phalanx::dispatch
