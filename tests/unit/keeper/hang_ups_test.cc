// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/hang_ups.h"

#include <poll.h>
#include <sys/socket.h>

#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>

#include "phalanx/os/tcp_listener.h"

namespace phalanx::keeper {
namespace {

// Clients on loopback, and the server's side of each.
class HangUpsTest : public testing::Test {
 protected:
  void connect(std::uint64_t id, bool has_request) {
    os::UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(listener_.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    pollfd entry{listener_.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 10'000), 1);
    auto accepted = listener_.accept();
    ASSERT_TRUE(accepted && *accepted);
    sockets_.push_back(std::move((*accepted)->fd));
    clients_.push_back(std::move(client));
    seen_.push_back({id, sockets_.back().get(), has_request});
  }

  // What its client did has reached the server's side.
  void wait_for_end(std::size_t index) {
    pollfd entry{sockets_[index].get(), POLLRDHUP, 0};
    ASSERT_EQ(::poll(&entry, 1, 10'000), 1);
  }

  void reset(std::size_t index) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(clients_[index].get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    clients_[index].reset();
    wait_for_end(index);
  }

  os::TcpListener listener_ = *os::TcpListener::listen("127.0.0.1", 0, 16);
  std::vector<os::UniqueFd> clients_;
  std::vector<os::UniqueFd> sockets_;
  std::vector<UnservedClient> seen_;
};

TEST_F(HangUpsTest, NobodyHasLeft) {
  EXPECT_TRUE(hung_up({}).empty());
  connect(1, true);
  connect(2, false);
  ASSERT_EQ(::send(clients_[0].get(), "GET", 3, 0), 3);
  EXPECT_TRUE(hung_up(seen_).empty());
}

TEST_F(HangUpsTest, AResetIsAlwaysAnEnd) {
  for (const std::uint64_t id : {1U, 2U, 3U}) {
    connect(id, id == 1);
  }
  reset(0);
  reset(2);
  EXPECT_EQ(hung_up(seen_), (std::vector<std::uint64_t>{1, 3}));
}

TEST_F(HangUpsTest, AnEndOfSendingIsAnEndWhileARequestIsInWork) {
  for (const std::uint64_t id : {1U, 2U, 3U}) {
    connect(id, id != 2);
  }
  for (const std::size_t index : {0U, 1U}) {
    ASSERT_EQ(::send(clients_[index].get(), "more", 4, 0), 4);
    ASSERT_EQ(::shutdown(clients_[index].get(), SHUT_WR), 0);
    wait_for_end(index);
  }
  EXPECT_EQ(hung_up(seen_), std::vector<std::uint64_t>{1});
}

TEST_F(HangUpsTest, AnEndInBothDirectionsIsAlwaysOne) {
  connect(1, false);
  ASSERT_EQ(::shutdown(clients_[0].get(), SHUT_WR), 0);
  wait_for_end(0);
  EXPECT_TRUE(hung_up(seen_).empty());
  ASSERT_EQ(::shutdown(sockets_[0].get(), SHUT_WR), 0);  // as the front that it had
  EXPECT_EQ(hung_up(seen_), std::vector<std::uint64_t>{1});
}

TEST_F(HangUpsTest, ReadsNothing) {
  connect(1, true);
  ASSERT_EQ(::send(clients_[0].get(), "GET", 3, 0), 3);
  ASSERT_EQ(::shutdown(clients_[0].get(), SHUT_WR), 0);
  wait_for_end(0);
  EXPECT_EQ(hung_up(seen_).size(), 1U);
  char bytes[8];
  EXPECT_EQ(::recv(sockets_[0].get(), bytes, sizeof bytes, MSG_DONTWAIT), 3);
}

}  // namespace
}  // namespace phalanx::keeper
