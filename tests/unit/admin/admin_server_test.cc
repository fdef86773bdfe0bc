// SPDX-License-Identifier: Apache-2.0
// Both ends of the operator's socket, over the socket.
#include "phalanx/admin/admin_server.h"

#include <unistd.h>

#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

namespace phalanx::admin {
namespace {

constexpr auto kLimit = std::chrono::seconds(10);
constexpr uid_t kNobody = 65534;

// A server on a loop of its own. The port is the number of this process: no two tests share it.
class AdminServerTest : public testing::Test {
 protected:
  void listen(std::uint32_t user) {
    auto server = AdminServer::listen(
        loop_, admin_socket_name(user, port_), [this](const std::string& line, auto reply) {
          heard_ = line;
          reply("answer to " + line);
        });
    ASSERT_TRUE(server) << server.error().message();
    server_ = *std::move(server);
    thread_ = std::thread([this] { loop_.run(); });
  }

  void TearDown() override {
    if (thread_.joinable()) {
      loop_.post([this] {
        server_.reset();
        loop_.stop();
      });
      thread_.join();
    }
  }

  const std::uint32_t user_ = ::geteuid();
  const auto static inline port_ = static_cast<std::uint16_t>(::getpid());
  os::EventLoop loop_;
  std::unique_ptr<AdminServer> server_;
  std::string heard_;
  std::thread thread_;
};

TEST_F(AdminServerTest, AnswersItsOwnUser) {
  listen(user_);
  const auto answer = admin_call({user_, port_}, "ping", kLimit);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(*answer, "answer to ping");
}

// The kernel tells under which user a server began to listen.
TEST_F(AdminServerTest, NothingIsSentToTheServerOfAnotherUser) {
  const bool root = user_ == 0;  // whom everybody believes
  const std::uint32_t looked_for = root ? user_ : user_ + 1;
  if (root) {
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  listen(looked_for);
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  const auto answer = admin_call({looked_for, port_}, "ping", kLimit);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kFailedPrecondition);
  const std::string expected = "run by user " + std::to_string(root ? kNobody : user_) +
                               ", expected user " + std::to_string(looked_for) + " or root";
  EXPECT_NE(answer.error().message().find(expected), std::string::npos) << answer.error().message();
  EXPECT_EQ(heard_, "");
}

TEST_F(AdminServerTest, NobodyThere) {
  const auto answer = admin_call({user_, port_}, "ping", kLimit);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace phalanx::admin
