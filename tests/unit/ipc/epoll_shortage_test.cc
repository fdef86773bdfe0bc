// SPDX-License-Identifier: Apache-2.0
#include "support/epoll_shortage.h"

#include "phalanx/ipc/connected_channel.h"

#include "loop_fixture.h"

namespace phalanx::ipc {
namespace {

const auto kHearNothing = [](std::string_view /*frame*/) {};

class ChannelsWithoutEpoll : public LoopTest {
 protected:
  template <typename Channel>
  static void expect_refused(const Result<Channel>& refused) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kResourceExhausted) << refused.error().to_string();
    EXPECT_NE(refused.error().message().find("fs.epoll.max_user_watches"), std::string::npos)
        << refused.error().message();
  }
  auto try_bind() {
    return BoundChannel::bind(context_, loop_, ::getpid(), {kHearNothing, nullptr}, {});
  }
};

// ZeroMQ ends the process where its own threads find no place.
TEST_F(ChannelsWithoutEpoll, NoneIsBoundWhereZeroMqMayFindNoPlace) {
  for (const std::size_t left : {0U, 7U}) {
    const test::EpollShortage shortage(left);
    expect_refused(try_bind());
  }
  EXPECT_TRUE(try_bind());
}

TEST_F(ChannelsWithoutEpoll, NoneIsBoundThatTheLoopCannotWatch) {
  std::size_t left = 0;
  for (bool refused = true; refused; ++left) {
    ASSERT_LT(left, 100U);
    const test::EpollShortage shortage(left);
    const auto channel = try_bind();
    refused = !channel;
    if (refused) {
      expect_refused(channel);
    }
  }
  EXPECT_GT(left, 8U) << "a socket and its connection take several";
}

TEST_F(ChannelsWithoutEpoll, NoneIsConnectedThatTheLoopCannotWatch) {
  const auto parent = bind({kHearNothing, nullptr});
  {
    const test::EpollShortage shortage;
    expect_refused(ConnectedChannel::connect(
        context_, loop_, parent->endpoint(), {kHearNothing, nullptr}, {}));
  }
  const auto child =
      ConnectedChannel::connect(context_, loop_, parent->endpoint(), {kHearNothing, nullptr}, {});
  EXPECT_TRUE(child);
}

TEST(ContextWithoutEpoll, IsNotMade) {
  const test::EpollShortage shortage;
  const auto context = ZmqContext::create();
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace phalanx::ipc
