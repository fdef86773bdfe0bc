// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/memory_budget.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::http {
namespace {

constexpr auto kBegins = MemoryBudget::Standing::kBegins;
constexpr auto kGiven = MemoryBudget::Standing::kGiven;
constexpr std::size_t kLimit = 256'000;  // more than 1,000 bytes are large

// Clients of one budget, with turns instead of a loop.
class MemoryBudgetTest : public testing::Test {
 protected:
  using Account = MemoryBudget::Account;

  MemoryBudgetTest() {
    budget_.on_room([this] { ++asked_; });
  }

  std::unique_ptr<Account> client(std::function<void()> go_on = [] {}) {
    return std::make_unique<Account>(budget_, std::move(go_on));
  }

  // One that wants so much, and books it once it may.
  struct Waiter {
    std::unique_ptr<Account> account;
    bool went_on = false;
  };
  std::shared_ptr<Waiter> ask_for(std::size_t bytes) {
    auto waiter = std::make_shared<Waiter>();
    waiter->account = client([raw = waiter.get(), bytes] {
      ASSERT_TRUE(raw->account->may_hold(bytes, kGiven)) << "called without room";
      raw->account->book(bytes, kGiven);
      raw->went_on = true;
    });
    if (waiter->account->may_hold(bytes, kGiven)) {
      waiter->account->book(bytes, kGiven);
      waiter->went_on = true;
    } else {
      waiter->account->wait_for(bytes, kGiven);
    }
    return waiter;
  }

  void turn() {
    while (asked_ > 0) {
      asked_ = 0;
      budget_.go_on_some();
    }
  }

  int asked_ = 0;
  MemoryBudget budget_{kLimit};
};

TEST_F(MemoryBudgetTest, BooksWhatIsHeldWhateverTheLimitIs) {
  const auto one = client();
  one->book(2 * kLimit, kGiven);
  EXPECT_TRUE(budget_.exceeded());
  EXPECT_TRUE(one->may_hold(3 * kLimit, kGiven)) << "what a client holds alone is always given";
  EXPECT_FALSE(client()->may_hold(1, kGiven));
  one->book(10, kGiven);
  EXPECT_EQ(budget_.held(), 10U);
  EXPECT_TRUE(client()->may_hold(1, kGiven));
}

TEST_F(MemoryBudgetTest, ASmallOneGoesOnBesideAnyNumberOfLargeOnes) {
  std::vector<std::shared_ptr<Waiter>> large;
  for (int i = 0; i < 100; ++i) {
    large.push_back(ask_for(48'000));
  }
  EXPECT_EQ(budget_.held(), 192'000U);
  EXPECT_EQ(budget_.waiting(), 96U);
  EXPECT_TRUE(ask_for(1000)->went_on);
}

TEST_F(MemoryBudgetTest, ALargeOneGetsItsTurnHoweverManySmallOnesCome) {
  std::vector<std::shared_ptr<Waiter>> small;
  while (small.empty() || small.back()->went_on) {
    small.push_back(ask_for(1000));
  }
  const auto large = ask_for(100'000);
  EXPECT_FALSE(large->went_on);
  std::size_t left = small.size();
  for (const auto& one : small) {
    one->account->close();
    turn();
    if (large->went_on) {
      break;
    }
    --left;
    ask_for(1000)->account->close();  // more of them come all the time
  }
  EXPECT_TRUE(large->went_on);
  EXPECT_GT(left, 0U);
}

TEST_F(MemoryBudgetTest, GoesOnInTheOrderOfArrival) {
  const auto first = client();
  first->book(192'000, kGiven);
  std::deque<std::shared_ptr<Waiter>> waiting;
  waiting.push_back(ask_for(100'000));
  waiting.push_back(ask_for(2'000));  // would fit before, and does not overtake
  waiting.push_back(ask_for(90'000));
  first->book(100'000, kGiven);
  EXPECT_EQ(asked_, 1);
  turn();
  EXPECT_FALSE(waiting[0]->went_on);
  EXPECT_FALSE(waiting[1]->went_on);
  first->book(91'000, kGiven);
  turn();
  EXPECT_TRUE(waiting[0]->went_on);
  EXPECT_FALSE(waiting[1]->went_on);
  waiting[0]->account->close();
  turn();
  EXPECT_TRUE(waiting[1]->went_on);
  EXPECT_TRUE(waiting[2]->went_on);
}

TEST_F(MemoryBudgetTest, WhoLeavesTheLineHoldsUpNobody) {
  const auto first = client();
  first->book(192'000, kGiven);
  auto leaving = ask_for(180'000);
  const auto behind = ask_for(2'000);
  first->book(150'000, kGiven);
  turn();
  EXPECT_FALSE(behind->went_on);
  leaving.reset();
  turn();
  EXPECT_TRUE(behind->went_on);
  EXPECT_EQ(budget_.held(), 152'000U);
}

TEST_F(MemoryBudgetTest, ManyGoOnInSeveralTurns) {
  const auto first = client();
  first->book(kLimit, kGiven);
  std::vector<std::shared_ptr<Waiter>> waiting;
  for (int i = 0; i < 40; ++i) {
    waiting.push_back(ask_for(10));
  }
  first->close();
  asked_ = 0;
  budget_.go_on_some();
  EXPECT_EQ(budget_.waiting(), 24U);
  EXPECT_EQ(asked_, 1);
  turn();
  EXPECT_EQ(budget_.waiting(), 0U);
}

// Clients that begin, and only then say what they want, would fill everything with beginnings.
TEST_F(MemoryBudgetTest, BeginningsDoNotTakeTheRoomThatTheyWaitFor) {
  struct Client {
    std::unique_ptr<Account> account;
    bool has_begun = false;
    bool is_given = false;
  };
  constexpr std::size_t kBegun = 6'000;
  for (const std::size_t wanted : {std::size_t{900}, std::size_t{20'000}, kLimit / 2}) {
    std::vector<std::unique_ptr<Client>> clients;
    const auto ask = [&](Client& one) {
      if (!one.has_begun) {
        if (!one.account->may_hold(1, kBegins)) {
          return one.account->wait_for(1, kBegins);
        }
        one.has_begun = true;
        one.account->book(std::min(kBegun, wanted / 2), kBegins);
      }
      if (!one.account->may_hold(wanted, kGiven)) {
        return one.account->wait_for(wanted, kGiven);
      }
      one.is_given = true;
      one.account->book(wanted, kGiven);
    };
    for (int i = 0; i < 1000; ++i) {
      clients.push_back(std::make_unique<Client>());
      Client& one = *clients.back();
      one.account = client([&one, ask] { ask(one); });
      ask(one);
    }
    for (std::size_t before = clients.size() + 1; !clients.empty() && clients.size() < before;) {
      before = clients.size();
      EXPECT_LE(budget_.held(), kLimit + kBegun);
      // One after the other: what it had may be taken by a beginning.
      const auto given = std::find_if(
          clients.begin(), clients.end(), [](const auto& one) { return one->is_given; });
      if (given != clients.end()) {
        clients.erase(given);
      }
      turn();
    }
    EXPECT_TRUE(clients.empty()) << clients.size() << " that want " << wanted
                                 << " are never served";
  }
}

// Headers that come slowly: all have begun before the first of them says what it wants.
TEST_F(MemoryBudgetTest, BeginningsLeaveRoomForWhoeverWantsMost) {
  std::vector<std::unique_ptr<Account>> begun;
  for (int i = 0; i < 1000; ++i) {
    begun.push_back(client());
    if (!begun.back()->may_hold(6'000, kBegins)) {
      begun.pop_back();
      break;
    }
    begun.back()->book(6'000, kBegins);
  }
  EXPECT_GT(begun.size(), 1U);
  EXPECT_TRUE(begun.front()->may_hold(kLimit / 2, kGiven));
  EXPECT_TRUE(begun.back()->may_hold(kLimit / 2, kGiven));
}

// Everybody who asks is served in the end as long as those who hold end, nobody is given what is
// not there, and nothing is left.
TEST_F(MemoryBudgetTest, ARandomHistoryServesEveryoneAndEndsEmpty) {
  std::mt19937 random(7);
  std::deque<std::shared_ptr<Waiter>> clients;
  for (int i = 0; i < 5000; ++i) {
    const bool is_large = random() % 4 == 0;
    clients.push_back(ask_for(is_large ? 2'000 + random() % 100'000 : 1 + random() % 1'000));
    EXPECT_FALSE(budget_.exceeded());
    while (clients.size() > 300 || (!clients.empty() && random() % 3 == 0)) {
      const std::size_t index = random() % clients.size();
      if (clients[index]->went_on || random() % 8 == 0) {
        clients.erase(clients.begin() + static_cast<std::ptrdiff_t>(index));
        turn();
      }
    }
  }
  for (std::size_t before = clients.size() + 1; !clients.empty() && clients.size() < before;) {
    before = clients.size();
    std::erase_if(clients, [](const auto& one) { return one->went_on; });
    turn();
  }
  EXPECT_TRUE(clients.empty()) << clients.size() << " are never served";
  EXPECT_EQ(budget_.held(), 0U);
  EXPECT_EQ(budget_.waiting(), 0U);
}

}  // namespace
}  // namespace phalanx::http
