// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/hang_up.h"

#include <poll.h>
#include <sys/socket.h>

#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>

#include "phalanx/os/tcp_listener.h"

namespace phalanx::os {
namespace {

// Clients on loopback, and the server's side of each.
class HangUpTest : public testing::Test {
 protected:
  void connect(bool left_when_silent) {
    UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
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
    peers_.push_back({sockets_.back().get(), left_when_silent});
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

  TcpListener listener_ = *TcpListener::listen("127.0.0.1", 0, 16);
  std::vector<UniqueFd> clients_;
  std::vector<UniqueFd> sockets_;
  std::vector<WatchedPeer> peers_;
};

TEST_F(HangUpTest, NobodyHasLeft) {
  EXPECT_TRUE(have_left({}).empty());
  connect(true);
  connect(false);
  ASSERT_EQ(::send(clients_[0].get(), "GET", 3, 0), 3);
  EXPECT_EQ(have_left(peers_), std::vector<bool>(2));
}

TEST_F(HangUpTest, AResetIsAlwaysAnEnd) {
  for (const bool left_when_silent : {true, false, false}) {
    connect(left_when_silent);
  }
  reset(0);
  reset(2);
  EXPECT_EQ(have_left(peers_), (std::vector<bool>{true, false, true}));
}

TEST_F(HangUpTest, AnEndOfSendingIsAnEndOnlyWhereItIsSaid) {
  for (const bool left_when_silent : {true, false, true}) {
    connect(left_when_silent);
  }
  for (const std::size_t index : {0U, 1U}) {
    ASSERT_EQ(::send(clients_[index].get(), "more", 4, 0), 4);
    ASSERT_EQ(::shutdown(clients_[index].get(), SHUT_WR), 0);
    wait_for_end(index);
  }
  EXPECT_EQ(have_left(peers_), (std::vector<bool>{true, false, false}));
}

TEST_F(HangUpTest, AnEndInBothDirectionsIsAlwaysOne) {
  connect(false);
  ASSERT_EQ(::shutdown(clients_[0].get(), SHUT_WR), 0);
  wait_for_end(0);
  EXPECT_EQ(have_left(peers_), std::vector<bool>{false});
  ASSERT_EQ(::shutdown(sockets_[0].get(), SHUT_WR), 0);  // as the front that it had
  EXPECT_EQ(have_left(peers_), std::vector<bool>{true});
}

TEST_F(HangUpTest, ReadsNothing) {
  connect(true);
  ASSERT_EQ(::send(clients_[0].get(), "GET", 3, 0), 3);
  ASSERT_EQ(::shutdown(clients_[0].get(), SHUT_WR), 0);
  wait_for_end(0);
  EXPECT_EQ(have_left(peers_), std::vector<bool>{true});
  char bytes[8];
  EXPECT_EQ(::recv(sockets_[0].get(), bytes, sizeof bytes, MSG_DONTWAIT), 3);
}

}  // namespace
}  // namespace phalanx::os
