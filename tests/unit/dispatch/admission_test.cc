// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/admission.h"

#include <optional>

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
  Admission::Ticket ticket = *admission.admit(90);
  EXPECT_FALSE(admission.admit(20));
  ticket.correct(30);
  EXPECT_EQ(admission.tokens(), 30U);
  EXPECT_TRUE(admission.admit(20));
}

TEST(Admission, AdmitsALargeRequestWhenNothingElseIsThere) {
  Admission admission({10, 100});
  const auto ticket = admission.admit(5000);
  ASSERT_TRUE(ticket);
  EXPECT_FALSE(admission.admit(1));
}

TEST(Admission, IsEmptyWhenEveryTicketIsGone) {
  Admission admission({10, 100});
  {
    Admission::Ticket ticket = *admission.admit(5);
    Admission::Ticket moved = std::move(ticket);
    moved.correct(9);
    EXPECT_EQ(admission.requests(), 1U);
  }
  EXPECT_EQ(admission.requests(), 0U);
  EXPECT_EQ(admission.tokens(), 0U);
}

TEST(Admission, OneBodyIsBookedWithAtMostHalf) {
  Admission admission({10, 100});
  Admission::Ticket ticket = *admission.admit(5);
  ticket.correct(100'000);
  EXPECT_EQ(admission.tokens(), 50U);
  EXPECT_TRUE(admission.admit(50));
}

}  // namespace
}  // namespace phalanx::dispatch
