// SPDX-License-Identifier: Apache-2.0
// What is said of the times of a request.
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "phalanx/dispatch/dispatcher.h"

#include "support/manual_clock.h"

namespace phalanx::dispatch {
namespace {

using std::chrono::microseconds;

struct Sink final : GenerationSink {
  void on_token(const TokenEvent& event) override {
    queue_time = event.queue_time;
    prefill_time = event.prefill_time;
  }
  void on_done() override {}
  void on_error(const Error& /*error*/) override {}

  Duration queue_time{};
  Duration prefill_time{};
};

// The leader may stand still as soon as a request has left it, while the replica computes.
TEST(DispatcherTimes, BeginWithARequestBeforeItsReplicaCanHaveIt) {
  test::ManualClock clock;
  Router router(1, *make_policy("least_pending_tokens", 1));
  router.table().at(ReplicaId(0)).ready = true;
  router.table().at(ReplicaId(0)).numerics_fingerprint = 1;
  std::optional<wire::SequenceKey> key;
  Dispatcher dispatcher(router,
                        [&](ReplicaId, const wire::LeaderMessage& message) {
                          if (const auto* submit = std::get_if<wire::Submit>(&message)) {
                            key = submit->key;
                          }
                          clock.advance(microseconds(900));
                          return wire::Sent::kQueued;
                        },
                        clock,
                        {.on_poisoned = {}, .on_more = [] {}});
  const auto sink = std::make_shared<Sink>();
  Generation request;
  request.prompt_ids = {'p', 'q'};
  request.stop.max_tokens = 5;
  const SteadyTime submitted = clock.now();
  dispatcher.submit(std::move(request), sink);
  ASSERT_TRUE(key);
  wire::TokenUpdate update;
  update.key = *key;
  update.has_token = true;
  update.token = 'r';
  update.to_generate = 4;
  update.queue_us = 20;
  update.prefill_us = 600;
  dispatcher.on_token_batch(ReplicaId(0), {StepId(1), {update}});
  EXPECT_EQ(sink->queue_time, microseconds(20));
  EXPECT_EQ(sink->prefill_time, microseconds(600));
  EXPECT_LE(sink->queue_time + sink->prefill_time, clock.now() - submitted);
}

}  // namespace
}  // namespace phalanx::dispatch
