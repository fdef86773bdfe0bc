// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "phalanx/ipc/blocking_channel.h"
#include "phalanx/ipc/connected_channel.h"
#include "phalanx/os/machine.h"

#include "loop_fixture.h"

namespace phalanx::ipc {
namespace {

using wire::Sent;

class LoopChannel : public LoopTest {
 protected:
  [[nodiscard]] std::unique_ptr<ConnectedChannel> connect(const BoundChannel& parent,
                                                          ChannelHandlers handlers,
                                                          const ChannelOptions& options = {}) {
    auto channel =
        ConnectedChannel::connect(context_, loop_, parent.endpoint(), std::move(handlers), options);
    EXPECT_TRUE(channel) << channel.error().to_string();
    return *std::move(channel);
  }
  [[nodiscard]] BlockingChannel connect_blocking(const BoundChannel& parent,
                                                 const ChannelOptions& options = {}) {
    auto channel = BlockingChannel::connect(context_, parent.endpoint(), options);
    EXPECT_TRUE(channel) << channel.error().to_string();
    return *std::move(channel);
  }
};

const auto kIgnore = [](std::string_view /*frame*/) {};

// A connection that finds no descriptor would end this process.
TEST_F(LoopChannel, IsNotBoundWhereItsConnectionMayFindNoDescriptor) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = os::open_descriptors() + 12;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto refused = BoundChannel::bind(context_, loop_, ::getpid(), {kIgnore, nullptr}, {});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted) << refused.error().to_string();
  EXPECT_NE(refused.error().message().find("Too many open files"), std::string::npos);
  const auto parent = bind({kIgnore, nullptr});
  EXPECT_NE(parent, nullptr);
}

TEST_F(LoopChannel, CarriesFramesBothWaysInOrder) {
  std::vector<std::string> up;
  std::vector<std::string> down;
  const auto parent = bind({.on_frame = [&](std::string_view frame) { up.emplace_back(frame); },
                            .on_writable = nullptr});
  std::unique_ptr<ConnectedChannel> child;
  int next = 0;
  const auto say = [&] {
    while (next < 3 && child->send("up " + std::to_string(next)) == Sent::kQueued) {
      ++next;
    }
  };
  child = connect(
      *parent,
      {.on_frame = [&](std::string_view frame) { down.emplace_back(frame); }, .on_writable = say});
  say();
  run_until([&] { return up.size() == 3; });
  EXPECT_EQ(up, (std::vector<std::string>{"up 0", "up 1", "up 2"}));
  EXPECT_EQ(parent->send(std::string("\0down", 5)), Sent::kQueued);
  EXPECT_EQ(parent->send(""), Sent::kQueued);
  run_until([&] { return down.size() == 2; });
  EXPECT_EQ(down, (std::vector<std::string>{std::string("\0down", 5), ""}));
}

TEST_F(LoopChannel, HasAFreshEndpointEachTime) {
  std::set<std::string> endpoints;
  for (int i = 0; i < 20; ++i) {
    const auto channel = bind({.on_frame = kIgnore, .on_writable = nullptr});
    EXPECT_EQ(channel->endpoint().rfind("ipc://@phalanx-", 0), 0U);
    EXPECT_EQ(channel->endpoint().size(), std::string("ipc://@phalanx-").size() + 32);
    endpoints.insert(channel->endpoint());
  }
  EXPECT_EQ(endpoints.size(), 20U);
}

TEST_F(LoopChannel, WouldBlockUntilThePeerHasCome) {
  int writable = 0;
  const auto parent = bind({.on_frame = kIgnore, .on_writable = [&] { ++writable; }});
  EXPECT_EQ(parent->send("too early"), Sent::kWouldBlock);
  run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(writable, 0);
  BlockingChannel child = connect_blocking(*parent);
  run_until([&] { return writable == 1; });
  EXPECT_EQ(parent->send("now"), Sent::kQueued);
  const auto frame = child.receive(kPatience);
  ASSERT_TRUE(frame && *frame);
  EXPECT_EQ(**frame, "now");  // what would have blocked was not kept
}

TEST_F(LoopChannel, WouldBlockWhenThePeerDoesNotRead) {
  int writable = 0;
  const ChannelOptions options{.send_queue_frames = 10, .receive_queue_frames = 10};
  const auto parent = bind({.on_frame = kIgnore, .on_writable = [&] { ++writable; }}, options);
  BlockingChannel child = connect_blocking(*parent, options);
  const std::string frame(64 * 1024, 'x');
  int queued = 0;
  const auto fill = [&] {
    const int before = queued;
    while (parent->send(frame) == Sent::kQueued) {
      ++queued;
    }
    return queued > before;
  };
  run_until(fill);
  do {  // both queues and the kernel's buffer fill up
    run_for(std::chrono::milliseconds(20));
  } while (fill());
  EXPECT_GE(queued, 10);
  EXPECT_LT(queued, 200);
  const int told = writable;
  for (int i = 0; i < queued; ++i) {
    const auto received = child.receive(kPatience);
    ASSERT_TRUE(received && *received) << i << " of " << queued;
  }
  run_until([&] { return writable > told; });
  EXPECT_EQ(parent->send("last"), Sent::kQueued);
  const auto last = child.receive(kPatience);
  ASSERT_TRUE(last && *last);
  EXPECT_EQ(**last, "last");
}

TEST_F(LoopChannel, DoesNotStallOverAHundredThousandFrames) {
  constexpr int kFrames = 100'000;
  int echoed = 0;
  int sent = 0;
  std::atomic<bool> finished = false;
  std::unique_ptr<BoundChannel> parent;
  const auto pump = [&] {
    while (sent < kFrames && parent->send("frame " + std::to_string(sent)) == Sent::kQueued) {
      ++sent;
    }
  };
  parent = bind({.on_frame =
                     [&](std::string_view frame) {
                       EXPECT_EQ(frame, "frame " + std::to_string(echoed));
                       ++echoed;
                     },
                 .on_writable = pump});
  std::thread echo([this, &parent, &finished] {
    BlockingChannel child = connect_blocking(*parent);
    for (int i = 0; i < kFrames; ++i) {
      const auto frame = child.receive(kPatience);
      if (!frame || !*frame || !child.send(**frame, kPatience)) {
        ADD_FAILURE() << "stalled at " << i;
        return;
      }
    }
    while (!finished) {  // what the parent has no room for dies with the connection
      std::this_thread::yield();
    }
  });
  pump();
  run_until([&] { return echoed == kFrames; });
  EXPECT_EQ(echoed, kFrames);
  finished = true;
  echo.join();
}

TEST_F(LoopChannel, LetsOtherWorkRunBetweenItsTurns) {
  constexpr int kFrames = 200;
  int received = 0;
  int most_in_a_row = 0;
  int in_a_row = 0;
  const ChannelOptions options{.frames_per_turn = 5};
  const auto parent = bind({.on_frame =
                                [&](std::string_view /*frame*/) {
                                  ++received;
                                  most_in_a_row = std::max(most_in_a_row, ++in_a_row);
                                },
                            .on_writable = nullptr},
                           options);
  BlockingChannel child = connect_blocking(*parent);
  for (int i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(child.send("frame", kPatience));
  }
  ASSERT_TRUE(child.receive(std::chrono::milliseconds(20)));  // by then they are all there
  std::function<void()> other_work = [&] {
    in_a_row = 0;
    if (received < kFrames) {
      loop_.post(other_work);
    }
  };
  loop_.post(other_work);
  run_until([&] { return received == kFrames; });
  EXPECT_LE(most_in_a_row, 10);
}

TEST_F(LoopChannel, MayBeDestroyedByItsOwnHandler) {
  std::unique_ptr<BoundChannel> parent;
  int received = 0;
  parent = bind({.on_frame =
                     [&](std::string_view /*frame*/) {
                       ++received;
                       parent.reset();
                     },
                 .on_writable = nullptr});
  BlockingChannel child = connect_blocking(*parent);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(child.send("frame", kPatience));
  }
  run_until([&] { return parent == nullptr; });
  run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(received, 1);
}

TEST_F(LoopChannel, DeliversTheRestOfAPeerThatLeavesInGoodOrder) {
  constexpr int kFrames = 500;
  int received = 0;
  const auto parent =
      bind({.on_frame = [&](std::string_view /*frame*/) { ++received; }, .on_writable = nullptr});
  {
    BlockingChannel child = connect_blocking(*parent);
    const std::string frame(10'000, 'x');
    for (int i = 0; i < kFrames; ++i) {
      ASSERT_TRUE(child.send(frame, kPatience));
    }
    child.deliver_rest(kPatience);
  }
  run_until([&] { return received == kFrames; });
}

// As a process does that ends: the channel goes first, then its context, which waits.
TEST_F(LoopChannel, DeliversTheRestOfAPeerWithALoopThatLeavesInGoodOrder) {
  constexpr int kFrames = 100;
  int received = 0;
  bool last_words = false;
  const auto parent = bind({.on_frame =
                                [&](std::string_view frame) {
                                  ++received;
                                  last_words = frame == "last words";
                                },
                            .on_writable = nullptr});
  {
    ZmqContext context = *ZmqContext::create();
    auto child = *ConnectedChannel::connect(
        context, loop_, parent->endpoint(), {.on_frame = kIgnore, .on_writable = nullptr}, {});
    const auto queued = [&](const std::string& frame) {
      return child->send(frame) == Sent::kQueued;
    };
    run_until([&] { return queued("first"); });
    for (int i = 0; i < kFrames; ++i) {
      ASSERT_TRUE(queued(std::string(10'000, 'x')));
    }
    ASSERT_TRUE(queued("last words"));
    child->deliver_rest(kPatience);
  }
  run_until([&] { return received == kFrames + 2; });
  EXPECT_TRUE(last_words);
}

TEST_F(LoopChannel, EndsTheConnectionOfAPeerWhoseFrameIsTooLong) {
  int received = 0;
  const ChannelOptions options{.max_frame_bytes = 1000};
  const auto parent =
      bind({.on_frame = [&](std::string_view /*frame*/) { ++received; }, .on_writable = nullptr},
           options);
  BlockingChannel child = connect_blocking(*parent);
  EXPECT_TRUE(child.send(std::string(1000, 'x'), kPatience));
  run_until([&] { return received == 1; });
  EXPECT_TRUE(child.send(std::string(1001, 'x'), kPatience));
  run_for(std::chrono::milliseconds(50));
  EXPECT_EQ(received, 1);
  const Status after = child.send("short", std::chrono::milliseconds(50));
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code(), Code::kDeadlineExceeded);
}

TEST_F(LoopChannel, NeverDeliversFramesOfAnOlderIncarnation) {
  for (int round = 0; round < 20; ++round) {
    auto parent = bind({.on_frame = kIgnore, .on_writable = nullptr});
    {
      BlockingChannel first = connect_blocking(*parent);
      run_until([&] { return parent->send("old") == Sent::kQueued; });
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(parent->send("old"), Sent::kQueued);
      }
    }
    parent = bind({.on_frame = kIgnore, .on_writable = nullptr});
    BlockingChannel second = connect_blocking(*parent);
    run_until([&] { return parent->send("new") == Sent::kQueued; });
    const auto frame = second.receive(kPatience);
    ASSERT_TRUE(frame && *frame);
    EXPECT_EQ(**frame, "new");
    const auto nothing = second.receive(Duration::zero());
    ASSERT_TRUE(nothing);
    EXPECT_FALSE(*nothing);
  }
}

TEST_F(LoopChannel, DoesNotKeepFramesForAPeerThatComesLater) {
  // The one endpoint of a living parent: a peer that leaves and another that comes.
  const auto parent = bind({.on_frame = kIgnore, .on_writable = nullptr});
  {
    BlockingChannel first = connect_blocking(*parent);
    run_until([&] { return parent->send("old") == Sent::kQueued; });
  }
  run_until([&] { return parent->send("old") == Sent::kWouldBlock; });
}

}  // namespace
}  // namespace phalanx::ipc
