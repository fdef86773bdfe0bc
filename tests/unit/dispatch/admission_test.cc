// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/admission.h"

#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::dispatch {
namespace {

// Of a body, for each token that it is booked with before it is read.
constexpr std::uint64_t kTokenBytes = 4;

TEST(Admission, RefusesBeyondTheRequestLimitAndRecovers) {
  Admission admission({2, 1000});
  std::optional<Admission::Ticket> first = *admission.admit(10 * kTokenBytes);
  const Admission::Ticket second = *admission.admit(10 * kTokenBytes);
  const auto refused = admission.admit(10 * kTokenBytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(refused.error().message(),
            "the server already holds 2 requests (limit 2); try again later");
  first.reset();
  EXPECT_TRUE(admission.admit(10 * kTokenBytes));
}

TEST(Admission, CountsBytesFirstAndTokensAfterwards) {
  Admission admission({10, 100});
  const Admission::Ticket small[] = {*admission.admit(6 * kTokenBytes),
                                     *admission.admit(6 * kTokenBytes),
                                     *admission.admit(6 * kTokenBytes)};
  const Admission::Ticket first = *admission.admit(37 * kTokenBytes);
  Admission::Ticket second = *admission.admit(37 * kTokenBytes);
  EXPECT_FALSE(admission.admit(20 * kTokenBytes));
  EXPECT_TRUE(second.correct(7));
  EXPECT_EQ(admission.tokens(), 62U);
  EXPECT_TRUE(admission.admit(20 * kTokenBytes));
}

TEST(Admission, BooksATokenForFourBytesOfABody) {
  for (const auto& [bytes, tokens] : {std::pair(1U, 1U), std::pair(8U, 2U), std::pair(9U, 3U)}) {
    Admission admission({10, 100});
    const auto ticket = admission.admit(bytes);
    EXPECT_EQ(admission.tokens(), tokens) << bytes;
  }
}

// Prompts of 1,024 tokens and answers of 128, all at once, as a benchmark sends by default.
TEST(Admission, HoldsAThousandRequestsOfABenchmarkByDefault) {
  Admission admission({});
  std::vector<Admission::Ticket> held;
  for (int i = 0; i < 1000; ++i) {
    auto ticket = admission.admit(6 * 1024);
    ASSERT_TRUE(ticket) << i;
    held.push_back(*std::move(ticket));
    EXPECT_TRUE(held.back().correct(1024 + 128));
  }
  EXPECT_TRUE(admission.admit(6 * 1024));
}

TEST(Admission, AdmitsALargeRequestWhenNothingElseIsThere) {
  Admission admission({10, 100});
  const auto ticket = admission.admit(5000 * kTokenBytes);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(admission.tokens(), 37U);
}

TEST(Admission, LimitsHoweverSmallTheLimitIs) {
  for (const std::uint64_t limit : {1U, 2U, 3U}) {
    Admission admission({10, limit});
    std::vector<Admission::Ticket> held;
    for (auto ticket = admission.admit(500 * kTokenBytes); ticket;
         ticket = admission.admit(500 * kTokenBytes)) {
      held.push_back(*std::move(ticket));
      ASSERT_LE(held.size(), limit);
    }
    EXPECT_FALSE(held.empty());
  }
}

TEST(Admission, AdmitsALargeBodyBesideASmallOne) {
  Admission admission({10, 1600});
  const auto small = admission.admit(5 * kTokenBytes);
  const auto large = admission.admit(8'000'000 * kTokenBytes);
  ASSERT_TRUE(large);
  const auto other = admission.admit(8'000'000 * kTokenBytes);
  ASSERT_TRUE(other);
  EXPECT_FALSE(admission.admit(8'000'000 * kTokenBytes));
  EXPECT_TRUE(admission.admit(5 * kTokenBytes));
}

TEST(Admission, IsEmptyWhenEveryTicketIsGone) {
  Admission admission({10, 100});
  {
    Admission::Ticket ticket = *admission.admit(5 * kTokenBytes);
    Admission::Ticket moved = std::move(ticket);
    EXPECT_TRUE(moved.correct(9));
    EXPECT_EQ(admission.requests(), 1U);
  }
  EXPECT_EQ(admission.requests(), 0U);
  EXPECT_EQ(admission.tokens(), 0U);
}

TEST(Admission, LargeBodiesShutNobodyOut) {
  Admission admission({100, 1600});
  Admission::Ticket first = *admission.admit(5 * kTokenBytes);
  EXPECT_TRUE(first.correct(1'000'000));
  EXPECT_EQ(admission.tokens(), 600U) << "half of what is there for large ones";
  Admission::Ticket second = *admission.admit(5 * kTokenBytes);
  EXPECT_TRUE(second.correct(1'000'000));
  Admission::Ticket third = *admission.admit(5 * kTokenBytes);
  const Status refused = third.correct(101);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(refused.error().message(),
            "the server already holds large requests of 1200 tokens (limit 1200); try again later");
  EXPECT_EQ(admission.tokens(), 1205U) << "as before";
  EXPECT_FALSE(admission.admit(101 * kTokenBytes));
  EXPECT_TRUE(third.correct(100));
  std::vector<Admission::Ticket> small;
  for (int i = 0; i < 3; ++i) {
    small.push_back(*admission.admit(5 * kTokenBytes));
    EXPECT_TRUE(small.back().correct(100));
  }
  EXPECT_FALSE(admission.admit(5 * kTokenBytes)) << "full of work, not of one kind of it";
  small.clear();
  { const Admission::Ticket gone = std::move(first); }
  EXPECT_TRUE(third.correct(500)) << "it has become large";
  EXPECT_FALSE(admission.admit(101 * kTokenBytes));
  EXPECT_TRUE(third.correct(10)) << "and small";
  EXPECT_TRUE(admission.admit(101 * kTokenBytes));
}

}  // namespace
}  // namespace phalanx::dispatch
