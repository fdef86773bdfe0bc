// SPDX-License-Identifier: Apache-2.0
#include "phalanx/obs/trace.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/manual_clock.h"

namespace phalanx::obs {
namespace {

nlohmann::json events_of(const TraceRing& ring) {
  return nlohmann::json::parse(ring.chrome_json("rank \"0\"", 12)).at("traceEvents");
}

TEST(TraceRing, WritesChromeTraceJson) {
  TraceRing ring(8);
  test::ManualClock clock;
  {
    const Span span(ring, clock, "step", "engine", 7);
    clock.advance(std::chrono::microseconds(1500));
  }
  const nlohmann::json events = events_of(ring);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].at("args").at("name"), "rank \"0\"");
  const nlohmann::json& event = events[1];
  EXPECT_EQ(event.at("name"), "step");
  EXPECT_EQ(event.at("cat"), "engine");
  EXPECT_EQ(event.at("ph"), "X");
  EXPECT_EQ(event.at("tid"), 7);
  EXPECT_EQ(event.at("pid"), 12);
  EXPECT_DOUBLE_EQ(event.at("dur"), 1500.0);
  EXPECT_DOUBLE_EQ(event.at("ts"), 3600e6);
}

TEST(TraceRing, KeepsTheNewestOldestFirst) {
  TraceRing ring(3);
  const SteadyTime zero{};
  for (int i = 0; i < 5; ++i) {
    ring.add({"e", "c", 0, zero + std::chrono::microseconds(i), {}});
  }
  const nlohmann::json events = events_of(ring);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_DOUBLE_EQ(events[1].at("ts"), 2);
  EXPECT_DOUBLE_EQ(events[3].at("ts"), 4);
  EXPECT_EQ(ring.added(), 5U);
}

TEST(TraceRing, IsValidJsonWhenEmpty) {
  EXPECT_EQ(events_of(TraceRing(0)).size(), 1U);
}

}  // namespace
}  // namespace phalanx::obs
