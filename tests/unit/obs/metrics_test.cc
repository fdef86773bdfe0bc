// SPDX-License-Identifier: Apache-2.0
#include "phalanx/obs/metrics.h"

#include <thread>

#include <gtest/gtest.h>

namespace phalanx::obs {
namespace {

TEST(MetricRegistry, SerializesEachKind) {
  MetricRegistry registry;
  registry.counter("requests_total", "Requests.", {{"reason", "stop"}}).add(3);
  registry.gauge("waiting", "Waiting requests.").set(2);
  Histogram& latency = registry.histogram("latency_seconds", "Latency.", {0.1, 1});
  latency.observe(0.05);
  latency.observe(5);
  const std::string text = registry.serialize();
  for (const char* line : {"# HELP requests_total Requests.\n",
                           "# TYPE requests_total counter\n",
                           "requests_total{reason=\"stop\"} 3\n",
                           "# TYPE waiting gauge\n",
                           "waiting 2\n",
                           "# TYPE latency_seconds histogram\n",
                           "latency_seconds_bucket{le=\"0.1\"} 1\n",
                           "latency_seconds_bucket{le=\"+Inf\"} 2\n",
                           "latency_seconds_count 2\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST(MetricRegistry, GivesTheSameSeriesAgain) {
  MetricRegistry registry;
  Counter& first = registry.counter("c_total", "Help.", {{"a", "1"}});
  Counter& same = registry.counter("c_total", "Help.", {{"a", "1"}});
  Counter& other = registry.counter("c_total", "Help.", {{"a", "2"}});
  first.add();
  EXPECT_EQ(&first, &same);
  EXPECT_NE(&first, &other);
  EXPECT_EQ(same.value(), 1);
  EXPECT_EQ(other.value(), 0);
}

TEST(MetricRegistry, RemovesTheSeriesOfWhatIsGone) {
  MetricRegistry registry;
  registry.gauge("pending", "Pending.", {{"replica", "0"}}).set(5);
  registry.gauge("pending", "Pending.", {{"replica", "1"}}).set(7);
  registry.counter("steps_total", "Steps.", {{"replica", "0"}}).add();
  registry.gauge("alive", "Alive.").set(1);
  EXPECT_EQ(registry.remove_series("replica", "0"), 2U);
  const std::string text = registry.serialize();
  EXPECT_EQ(text.find("replica=\"0\""), std::string::npos);
  EXPECT_NE(text.find("pending{replica=\"1\"} 7"), std::string::npos);
  EXPECT_NE(text.find("alive 1"), std::string::npos);
  EXPECT_EQ(registry.gauge("pending", "Pending.", {{"replica", "0"}}).value(), 0)
      << "a successor starts from nothing";
}

TEST(MetricRegistry, FollowsWhatIsCountedElsewhere) {
  MetricRegistry registry;
  Counter& counter = registry.counter("c_total", "Help.");
  counter.follow(5);
  counter.follow(5);
  EXPECT_EQ(counter.value(), 5);
  counter.follow(7);
  EXPECT_EQ(counter.value(), 7);
  counter.follow(3);  // its process was started again
  EXPECT_EQ(counter.value(), 10);
  counter.follow(4);
  EXPECT_EQ(counter.value(), 11);
}

TEST(MetricRegistry, CountsFromManyThreads) {
  MetricRegistry registry;
  Counter& counter = registry.counter("c_total", "Help.");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) {
        counter.add();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(counter.value(), 4000);
}

TEST(MetricRegistryDeathTest, RefusesOneNameForTwoTypes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  MetricRegistry registry;
  static_cast<void>(registry.gauge("x", "Help."));
  EXPECT_DEATH(static_cast<void>(registry.counter("x", "Help.")), "two types");
}

}  // namespace
}  // namespace phalanx::obs
