// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/ipc/bound_channel.h"
#include "phalanx/ipc/zmq_context.h"
#include "phalanx/os/event_loop.h"

namespace phalanx::ipc {

// An event loop and a context for a test; the loop ends when a condition holds.
class LoopTest : public testing::Test {
 protected:
  static constexpr Duration kPatience = std::chrono::seconds(30);

  LoopTest() : context_(make_context()) {}

  // Runs the loop until stop_when() was satisfied, or fails the test.
  void run_until(const std::function<bool()>& done, Duration patience = kPatience) {
    bool timed_out = false;
    const auto limit = loop_.call_after(patience, [&] {
      timed_out = true;
      loop_.stop();
    });
    const auto poll = loop_.call_every(std::chrono::milliseconds(1), [&] {
      if (done()) {
        loop_.stop();
      }
    });
    loop_.run();
    EXPECT_FALSE(timed_out);
  }

  // Runs the loop for a moment in which nothing is expected to happen.
  void run_for(Duration duration) {
    const auto limit = loop_.call_after(duration, [&] { loop_.stop(); });
    loop_.run();
  }

  [[nodiscard]] std::unique_ptr<BoundChannel> bind(ChannelHandlers handlers,
                                                   const ChannelOptions& options = {},
                                                   pid_t peer = ::getpid()) {
    auto channel = BoundChannel::bind(context_, loop_, peer, std::move(handlers), options);
    EXPECT_TRUE(channel) << channel.error().to_string();
    return *std::move(channel);
  }

  ZmqContext context_;
  os::EventLoop loop_;

 private:
  static ZmqContext make_context() {
    auto context = ZmqContext::create();
    EXPECT_TRUE(context);
    return *std::move(context);
  }
};

}  // namespace phalanx::ipc
