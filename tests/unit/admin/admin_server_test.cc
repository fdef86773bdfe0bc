// SPDX-License-Identifier: Apache-2.0
// Both ends of the operator's socket, over the socket.
#include "phalanx/admin/admin_server.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <ctime>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/admin/admin_call.h"
#include "phalanx/os/unique_fd.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/frame_header.h"
#include "phalanx/wire/limits.h"

namespace phalanx::admin {
namespace {

constexpr auto kLimit = std::chrono::seconds(10);
constexpr uid_t kNobody = 65534;
const wire::AdminRequest kRequest{wire::AdminCommand::kDrain, 3};

// A server on a loop of its own. The port is the number of this process: no two tests share it.
class AdminServerTest : public testing::Test {
 protected:
  void listen(std::uint32_t user) {
    auto server = AdminServer::listen(
        loop_,
        admin_socket_name(user, port_),
        [this](const wire::AdminRequest& request, auto reply) {
          heard_ = request;
          reply(wire::AdminRefused{"answer to " + std::to_string(request.replica)});
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

  static std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // abstract
    return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
  }

  // What stands in for a server, with a queue of so many and one more.
  [[nodiscard]] os::UniqueFd listening(int backlog) const {
    os::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto [address, length] = address_of(admin_socket_name(user_, port_));
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(fd.get(), backlog), 0);
    return fd;
  }

  [[nodiscard]] os::UniqueFd connected() const {
    os::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto [address, length] = address_of(admin_socket_name(user_, port_));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
    return fd;
  }

  // Sends these bytes to the server, and returns all that it answers.
  [[nodiscard]] std::string raw_call(const std::string& bytes) const {
    const os::UniqueFd fd = connected();
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    std::string answer;
    char byte = 0;
    while (::recv(fd.get(), &byte, 1, 0) > 0) {
      answer += byte;
    }
    return answer;
  }

  // The server sees by and by that clients have left.
  [[nodiscard]] bool call_until_heard() const {
    const SteadyTime end = steady_clock().now() + kLimit;
    while (!heard_ && steady_clock().now() < end) {
      static_cast<void>(admin_call({user_, port_}, kRequest, kLimit));
    }
    return heard_.has_value();
  }

  const std::uint32_t user_ = ::geteuid();
  const auto static inline port_ = static_cast<std::uint16_t>(::getpid());
  os::EventLoop loop_;
  std::unique_ptr<AdminServer> server_;
  std::optional<wire::AdminRequest> heard_;
  std::thread thread_;
};

TEST_F(AdminServerTest, AnswersItsOwnUser) {
  listen(user_);
  const auto answer = admin_call({user_, port_}, kRequest, kLimit);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(*answer, wire::AdminAnswer(wire::AdminRefused{"answer to 3"}));
  EXPECT_EQ(heard_, kRequest);
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
  const auto answer = admin_call({looked_for, port_}, kRequest, kLimit);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kFailedPrecondition);
  const std::string expected = "run by user " + std::to_string(root ? kNobody : user_) +
                               ", expected user " + std::to_string(looked_for) + " or root";
  EXPECT_NE(answer.error().message().find(expected), std::string::npos) << answer.error().message();
  EXPECT_FALSE(heard_);
}

// Of a frame: the refusal in it, with the version of its header.
std::string refusal_in(const std::string& bytes) {
  const auto size = wire::frame_bytes_of(bytes.substr(0, wire::kFrameHeaderBytes), bytes.size());
  if (!size || bytes.size() != wire::kFrameHeaderBytes + *size) {
    return "no frame: " + bytes;
  }
  const auto answer = wire::decode_admin_answer(bytes.substr(wire::kFrameHeaderBytes));
  const auto* const refused = answer ? std::get_if<wire::AdminRefused>(&*answer) : nullptr;
  return refused == nullptr ? "no refusal" : refused->message;
}

TEST_F(AdminServerTest, WhoSpeaksInLinesIsToldInOneWhatIsExpected) {
  listen(user_);
  const std::string answer = raw_call("{\"command\":\"ping\"}\n");
  EXPECT_EQ(answer,
            "{\"code\":\"failed_precondition\",\"error\":\"this server expects frames of version " +
                std::to_string(wire::kProtocolVersion) +
                " of its protocol; use the phalanxctl that belongs to it\",\"ok\":false}\n");
  EXPECT_FALSE(heard_);
}

TEST_F(AdminServerTest, AnotherVersionIsRefusedByItsNumber) {
  listen(user_);
  std::string request = wire::with_header(wire::encode(kRequest));
  request[4] = 99;
  EXPECT_NE(refusal_in(raw_call(request)).find("came one of version 99"), std::string::npos);
  EXPECT_FALSE(heard_);
}

TEST_F(AdminServerTest, WhatIsNoRequestIsRefused) {
  listen(user_);
  EXPECT_NE(refusal_in(raw_call(wire::with_header("\x94"))).find("admin_request"),
            std::string::npos);
  std::string too_long = wire::with_header("");
  too_long[11] = 1;
  EXPECT_EQ(refusal_in(raw_call(too_long)),
            "expected a frame of at most 65536 bytes, came one of 16777216");
  EXPECT_FALSE(heard_);
}

TEST_F(AdminServerTest, WhatMayNotBeAskedIsNotSent) {
  listen(user_);
  const auto answer = admin_call({user_, port_}, {wire::AdminCommand::kDrain, 0x10000}, kLimit);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kInvalidArgument);
}

// A server of an older version answers with a line; one that is no server with anything.
TEST_F(AdminServerTest, AServerThatAnswersInAnotherWayIsNamed) {
  const os::UniqueFd listener = listening(1);
  std::thread server([&listener] {
    const int client = ::accept(listener.get(), nullptr, nullptr);
    const std::string line = "{\"ok\":false}\n";
    EXPECT_EQ(::send(client, line.data(), line.size(), 0), static_cast<ssize_t>(line.size()));
    char byte = 0;
    while (::recv(client, &byte, 1, 0) > 0) {
    }
    ::close(client);
  });
  const auto answer = admin_call({user_, port_}, kRequest, kLimit);
  server.join();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kFailedPrecondition);
  EXPECT_NE(answer.error().message().find("expected a frame of version"), std::string::npos)
      << answer.error().message();
}

// The 17th is told why it is not heard, whether the server reads its request or not.
TEST_F(AdminServerTest, OneClientTooManyIsRefused) {
  listen(user_);
  std::vector<os::UniqueFd> silent;
  for (int i = 0; i < 16; ++i) {
    silent.push_back(connected());
  }
  for (int i = 0; i < 50; ++i) {
    const auto answer = admin_call({user_, port_}, kRequest, kLimit);
    ASSERT_TRUE(answer) << answer.error().message();
    const auto* const refused = std::get_if<wire::AdminRefused>(&*answer);
    ASSERT_NE(refused, nullptr);
    EXPECT_NE(refused->message.find("too many clients"), std::string::npos) << refused->message;
  }
  EXPECT_FALSE(heard_);
  silent.clear();
  EXPECT_TRUE(call_until_heard());
}

TEST_F(AdminServerTest, AServerThatAcceptsNobodyIsWaitedForInTimeOnly) {
  const os::UniqueFd listener = listening(0);
  const os::UniqueFd queued = connected();
  const SteadyTime began = steady_clock().now();
  const auto answer = admin_call({user_, port_}, kRequest, std::chrono::milliseconds(300));
  EXPECT_LT(steady_clock().now() - began, std::chrono::seconds(5));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kDeadlineExceeded) << answer.error().message();
}

TEST_F(AdminServerTest, AServerThatAnswersByHalvesIsWaitedForInTimeOnly) {
  for (const std::string& part : {std::string(),
                                  wire::with_header("ab").substr(0, 5),
                                  wire::with_header("ab").substr(0, 13)}) {
    const os::UniqueFd listener = listening(1);
    std::thread server([&] {
      const os::UniqueFd client(::accept(listener.get(), nullptr, nullptr));
      EXPECT_EQ(::send(client.get(), part.data(), part.size(), 0),
                static_cast<ssize_t>(part.size()));
      char byte = 0;
      while (::recv(client.get(), &byte, 1, 0) > 0) {
      }
    });
    const auto answer = admin_call({user_, port_}, kRequest, std::chrono::milliseconds(100));
    server.join();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code(), Code::kDeadlineExceeded) << answer.error().message();
  }
}

TEST_F(AdminServerTest, WhoHangsUpIsNotSaidToHearOthersOnly) {
  const os::UniqueFd listener = listening(1);
  std::thread server([&listener] { ::close(::accept(listener.get(), nullptr, nullptr)); });
  const auto answer = admin_call({user_, port_}, kRequest, kLimit);
  server.join();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kUnavailable);
  EXPECT_EQ(answer.error().message().find("user"), std::string::npos) << answer.error().message();
}

TEST_F(AdminServerTest, WithoutDescriptorsAcceptingRests) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer needs descriptors itself";
#endif
  listen(user_);
  const os::UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto [address, length] = address_of(admin_socket_name(user_, port_));
  EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::clock_t spent = std::clock() - before;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_LT(spent, CLOCKS_PER_SEC / 10) << "of processor time, in half a second";
  EXPECT_TRUE(admin_call({user_, port_}, kRequest, kLimit));
}

TEST_F(AdminServerTest, NobodyThere) {
  const auto answer = admin_call({user_, port_}, kRequest, kLimit);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace phalanx::admin
