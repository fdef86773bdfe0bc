// SPDX-License-Identifier: Apache-2.0
#include "phalanx/desk/event_log.h"

#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/step/limits.h"
#include "phalanx/wire/limits.h"

namespace phalanx::desk {
namespace {

constexpr wire::RequestKey kKey{7, 2};

class RandomEvents {
 public:
  explicit RandomEvents(std::uint32_t seed) : random_(seed) {}

  wire::FrontEvent token() {
    wire::FrontEvent event;
    event.key = kKey;
    event.prompt = below(wire::kMaxFrontPrompts);
    event.choice = below(wire::kMaxFrontChoices);
    event.position = any();
    event.token = static_cast<TokenId>(random_() >> 1U);
    if (below(2) == 0) {
      event.logprob = logprob();
    }
    for (std::uint32_t i = below(3) == 0 ? below(step::kMaxTopLogprobs + 1) : 0; i > 0; --i) {
      event.top_logprobs.push_back({static_cast<TokenId>(random_() >> 1U), logprob()});
    }
    event.cached_tokens = 100 * ((event.prompt + event.choice) % 3);  // the same for a choice
    event.finish = static_cast<step::FinishReason>(below(3));
    return event;
  }

  static wire::FrontEvent error() {
    wire::FrontEvent event;
    event.key = kKey;
    event.finish = step::FinishReason::kError;
    event.error_code = static_cast<std::uint32_t>(Code::kUnavailable);
    event.error_message = "it is gone";
    return event;
  }

  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }

 private:
  std::uint32_t any() { return static_cast<std::uint32_t>(random_()); }
  float logprob() { return -static_cast<float>(below(100'000)) * 1e-3F; }

  std::mt19937 random_;
};

TEST(EventLog, HasNothingAtFirst) {
  EXPECT_EQ(EventLog().size(), 0U);
}

TEST(EventLog, GivesBackWhatWasAppended) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    RandomEvents random(seed);
    std::vector<wire::FrontEvent> events;
    EventLog log;
    for (std::uint32_t i = random.below(400); i > 0; --i) {
      events.push_back(random.token());
      log.append(events.back());
    }
    if (seed % 2 == 0) {
      events.push_back(RandomEvents::error());
      log.append(events.back());
    }
    ASSERT_EQ(log.size(), events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      ASSERT_EQ(log.event(i, kKey), events[i]) << "seed " << seed << ", event " << i;
    }
  }
}

TEST(EventLog, GivesBackManyAndGoesInPieces) {
  RandomEvents random(1);
  std::vector<wire::FrontEvent> events;
  EventLog log;
  for (int i = 0; i < 5000; ++i) {
    events.push_back(random.token());
    if (i % 1500 < 700) {
      events.back().top_logprobs.clear();  // for longer than a piece of the log
    }
    log.append(events.back());
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    ASSERT_EQ(log.event(i, kKey), events[i]) << "event " << i;
  }
  int pieces = 1;
  while (log.shrink(1000)) {
    ++pieces;
  }
  EXPECT_EQ(pieces, 5);
  EXPECT_FALSE(EventLog().shrink(1000));
}

TEST(EventLog, AnErrorMayBeAllThereIs) {
  EventLog log;
  log.append(RandomEvents::error());
  ASSERT_EQ(log.size(), 1U);
  EXPECT_EQ(log.event(0, kKey), RandomEvents::error());
}

}  // namespace
}  // namespace phalanx::desk
