// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/tcp_account.h"

#include <poll.h>
#include <sys/socket.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>

#include "phalanx/os/tcp_listener.h"

namespace phalanx::os {
namespace {

// A client, and the server's side of it, with buffers so small that writes are cut short.
class TcpAccountTest : public testing::Test {
 protected:
  void SetUp() override {
    auto listener = TcpListener::listen("127.0.0.1", 0, 4);
    ASSERT_TRUE(listener) << listener.error().to_string();
    client_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int small = 4096;
    ::setsockopt(client_.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(listener->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(client_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    pollfd entry{listener->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 10'000), 1);
    auto accepted = listener->accept();
    ASSERT_TRUE(accepted && *accepted);
    server_ = std::move((*accepted)->fd);
    ::setsockopt(server_.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  }

  void expect_account(std::uint64_t received, std::uint64_t sent) {
    const auto account = tcp_account(server_.get());
    ASSERT_TRUE(account) << account.error().to_string();
    EXPECT_EQ(account->received, received);
    EXPECT_EQ(account->sent, sent);
  }

  static bool is_readable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, 10'000) == 1;
  }

  UniqueFd client_;
  UniqueFd server_;
};

TEST_F(TcpAccountTest, ThisKernelCountsAsItIsTakenTo) {
  const Status proof = check_tcp_account();
  EXPECT_TRUE(proof) << proof.error().to_string();
}

TEST_F(TcpAccountTest, EqualsWhatWasReadAndWrittenThroughARandomConversation) {
  std::mt19937 random(20261123);  // NOLINT(cert-msc51-cpp): the same every time
  std::vector<char> bytes(std::size_t{1} << 16);
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  std::size_t short_writes = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::size_t size = 1 + random() % (random() % 8 == 0 ? bytes.size() : 2000);
    ssize_t count = 0;
    switch (random() % 4) {
      case 0:
        ASSERT_GE(::send(client_.get(), bytes.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL), -1);
        break;
      case 1:
        count = ::recv(server_.get(), bytes.data(), size, MSG_DONTWAIT);
        received += count > 0 ? static_cast<std::uint64_t>(count) : 0;
        break;
      case 2:
        count = ::send(server_.get(), bytes.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += count > 0 ? static_cast<std::uint64_t>(count) : 0;
        short_writes += count < static_cast<ssize_t>(size) ? 1U : 0U;
        break;
      default:
        ASSERT_GE(::recv(client_.get(), bytes.data(), size, MSG_DONTWAIT), -1);
    }
    expect_account(received, sent);
  }
  EXPECT_GT(short_writes, 50U);
}

TEST_F(TcpAccountTest, AnUrgentByteIsOneLikeAnyOther) {
  ASSERT_EQ(::send(client_.get(), "ab", 2, 0), 2);
  ASSERT_EQ(::send(client_.get(), "!", 1, MSG_OOB), 1);
  ASSERT_EQ(::send(client_.get(), "cd", 2, 0), 2);
  std::string got;
  while (got.size() < 5 && is_readable(server_.get())) {
    char byte = 0;
    ASSERT_EQ(::recv(server_.get(), &byte, 1, 0), 1);
    got.push_back(byte);
    expect_account(got.size(), 0);
  }
  EXPECT_EQ(got, "ab!cd");
}

TEST_F(TcpAccountTest, TheEndOfThePeerIsNoByte) {
  ASSERT_EQ(::send(client_.get(), "abc", 3, 0), 3);
  ASSERT_EQ(::shutdown(client_.get(), SHUT_WR), 0);
  char bytes[4];
  ASSERT_TRUE(is_readable(server_.get()));
  ASSERT_EQ(::recv(server_.get(), bytes, 2, 0), 2);
  expect_account(2, 0);
  ASSERT_EQ(::recv(server_.get(), bytes, 4, 0), 1);
  expect_account(3, 0);
  ASSERT_EQ(::recv(server_.get(), bytes, 4, 0), 0);
  expect_account(3, 0);
}

TEST_F(TcpAccountTest, ItsOwnEndIsTold) {
  ASSERT_EQ(::send(server_.get(), "abc", 3, 0), 3);
  ASSERT_EQ(::shutdown(server_.get(), SHUT_WR), 0);
  const auto account = tcp_account(server_.get());
  ASSERT_TRUE(account) << account.error().to_string();
  EXPECT_EQ(*account, (TcpAccount{0, 3, true}));
}

TEST_F(TcpAccountTest, AResetConnectionHasNone) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(client_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  client_.reset();
  ASSERT_TRUE(is_readable(server_.get()));
  EXPECT_FALSE(tcp_account(server_.get()));
  const UniqueFd no_connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(tcp_account(no_connection.get()));
}

}  // namespace
}  // namespace phalanx::os
