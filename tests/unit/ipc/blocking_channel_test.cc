// SPDX-License-Identifier: Apache-2.0
#include "phalanx/ipc/blocking_channel.h"

#include "loop_fixture.h"

namespace phalanx::ipc {
namespace {

using BlockingChannelTest = LoopTest;

const auto kIgnore = [](std::string_view /*frame*/) {};

TEST_F(BlockingChannelTest, ReturnsNothingWhenTheTimeIsOver) {
  const auto parent = bind({.on_frame = kIgnore, .on_writable = nullptr});
  auto child = BlockingChannel::connect(context_, parent->endpoint(), {});
  ASSERT_TRUE(child);
  const SteadyTime start = std::chrono::steady_clock::now();
  const auto frame = child->receive(std::chrono::milliseconds(20));
  ASSERT_TRUE(frame);
  EXPECT_FALSE(*frame);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(19));
}

TEST_F(BlockingChannelTest, GivesUpOnAParentThatIsNotThere) {
  auto child = BlockingChannel::connect(context_, "ipc://@phalanx-nobody-listens-here", {});
  ASSERT_TRUE(child);
  const Status sent = child->send("frame", std::chrono::milliseconds(20));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), Code::kDeadlineExceeded);
}

TEST_F(BlockingChannelTest, RefusesWhatIsNoEndpoint) {
  for (const std::string endpoint : {"", "nonsense", "ftp://somewhere", "ipc://"}) {
    const auto child = BlockingChannel::connect(context_, endpoint, {});
    EXPECT_FALSE(child) << endpoint;
  }
}

}  // namespace
}  // namespace phalanx::ipc
