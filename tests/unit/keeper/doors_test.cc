// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/doors.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "support/epoll_shortage.h"

namespace phalanx::keeper {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Doors on a loop that the test runs until something has come, and clients that only connect.
class DoorsTest : public testing::Test {
 protected:
  struct Arrival {
    std::uint64_t id;
    std::string peer;
    std::string refusal;
  };

  // Without a place_wait of its own a test sees refusals soon.
  void open(DoorOptions options) {
    if (options.place_wait == DoorOptions().place_wait) {
      options.place_wait = milliseconds(5);
    }
    auto doors = Doors::open(loop_,
                             std::move(options),
                             [this](std::uint64_t id,
                                    const os::UniqueFd& socket,
                                    const std::string& peer,
                                    const std::string& refusal) {
                               EXPECT_EQ(doors_->socket(id), &socket);
                               arrivals_.push_back({id, peer, refusal});
                               if (hangs_up_at_once_) {
                                 doors_->closed(id);
                               }
                             });
    ASSERT_TRUE(doors) << doors.error().to_string();
    doors_ = *std::move(doors);
  }

  // An empty descriptor if the kernel refuses.
  os::UniqueFd connect(const char* from = "127.0.0.1") {
    os::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &address.sin_addr);
    const auto* const any = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(::bind(fd.get(), any, sizeof address), 0);
    address.sin_port = htons(doors_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(fd.get(), any, sizeof address) == 0 ? std::move(fd) : os::UniqueFd();
  }

  // Runs the loop until `condition` holds.
  template <typename Condition>
  void run_until(Condition condition) {
    const auto guard = loop_.call_after(seconds(10), [this] {
      ADD_FAILURE() << "nothing came";
      loop_.stop();
    });
    const auto look = loop_.call_every(milliseconds(1), [&] {
      if (condition()) {
        loop_.stop();
      }
    });
    loop_.run();
  }

  // Lets a client in; why it is refused, or nothing.
  std::string arrive(const char* from = "127.0.0.1") {
    const std::size_t before = arrivals_.size();
    clients_.push_back(connect(from));
    run_until([&] { return arrivals_.size() > before; });
    return arrivals_.size() > before ? arrivals_.back().refusal : "nobody came";
  }

  // A client comes that has to wait for a place.
  void wait_at_the_door(const char* from = "127.0.0.1") {
    const std::size_t before = doors_->connections();
    clients_.push_back(connect(from));
    run_until([&] { return doors_->connections() > before; });
  }

  // Whether the server has hung up on the client; waits for it.
  static bool is_hung_up(const os::UniqueFd& client) {
    char byte = 0;
    return ::recv(client.get(), &byte, 1, 0) == 0;
  }

  os::EventLoop loop_;
  std::unique_ptr<Doors> doors_;
  std::vector<Arrival> arrivals_;
  std::vector<os::UniqueFd> clients_;
  bool hangs_up_at_once_ = false;
};

TEST_F(DoorsTest, AnAddressThatIsNoneNamesItsFlag) {
  for (const char* const address : {"nowhere", ""}) {
    DoorOptions options;
    options.address = address;
    const auto doors = Doors::open(loop_, std::move(options), {});
    ASSERT_FALSE(doors) << address;
    EXPECT_EQ(doors.error().code(), Code::kInvalidArgument);
    EXPECT_TRUE(doors.error().message().starts_with("--host: ")) << doors.error().message();
  }
}

TEST_F(DoorsTest, NumbersClientsFromOneAndHoldsTheirSockets) {
  open({});
  EXPECT_TRUE(doors_->on_loopback());
  EXPECT_EQ(arrive(), "");
  EXPECT_EQ(arrive("127.0.0.2"), "");
  EXPECT_EQ(arrivals_[0].id, 1U);
  EXPECT_EQ(arrivals_[1].id, 2U);
  EXPECT_EQ(arrivals_[0].peer.rfind("127.0.0.1:", 0), 0U);
  EXPECT_EQ(arrivals_[1].peer.rfind("127.0.0.2:", 0), 0U);
  ASSERT_NE(doors_->socket(2), nullptr);
  EXPECT_EQ(::send(doors_->socket(2)->get(), "x", 1, MSG_NOSIGNAL), 1);
  char byte = 0;
  EXPECT_EQ(::recv(clients_[1].get(), &byte, 1, 0), 1);
  EXPECT_EQ(doors_->socket(3), nullptr);
  EXPECT_EQ(doors_->connections(), 2U);
}

TEST_F(DoorsTest, RefusesClientsBeyondTheLimitUntilAPlaceIsFree) {
  open({.connections_max = 2});
  EXPECT_EQ(arrive(), "");
  EXPECT_EQ(arrive(), "");
  EXPECT_EQ(arrive(), "the server has its 2 connections; try again later");
  doors_->closed(3);
  EXPECT_NE(arrive(), "") << "the place of a refused one is nobody's";
  doors_->closed(1);
  EXPECT_TRUE(is_hung_up(clients_[0]));
  EXPECT_EQ(doors_->socket(1), nullptr);
  EXPECT_EQ(arrive(), "");
  EXPECT_EQ(doors_->connections(), 3U);
  doors_->closed(1);
  EXPECT_EQ(doors_->connections(), 3U) << "there is none of that number";
}

TEST_F(DoorsTest, RefusesClientsOfOneAddressBeyondItsShare) {
  open({.connections_per_address_max = 2});
  EXPECT_EQ(arrive(), "");
  EXPECT_EQ(arrive(), "");
  EXPECT_EQ(arrive(),
            "your address has its 2 connections (--max-connections-per-address); use fewer, or try "
            "again later");
  EXPECT_EQ(arrive("127.0.0.2"), "") << "another address has a share of its own";
  doors_->closed(2);
  EXPECT_EQ(arrive(), "");
}

TEST_F(DoorsTest, LoopbackHasNoShareUnlessOneIsSet) {
  open({.connections_max = 8});  // of which another address would have two
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(arrive(), "");
  }
}

TEST_F(DoorsTest, AConnectionThatIsRefusedTakesNobodysPlace) {
  open({.connections_max = 3, .connections_per_address_max = 1});
  EXPECT_EQ(arrive(), "");
  for (int i = 0; i < 5; ++i) {
    EXPECT_NE(arrive(), "");
  }
  EXPECT_EQ(arrive("127.0.0.2"), "");
  EXPECT_EQ(arrive("127.0.0.3"), "");
}

TEST_F(DoorsTest, ShutsTheDoorOnManyThatAreRefused) {
  constexpr std::size_t kRefused = 256;
  open({.connections_max = 1});
  for (std::size_t i = 0; i < 1 + kRefused + 10; ++i) {
    clients_.push_back(connect());
  }
  EXPECT_EQ(Doors::kMaxRefused, kRefused);
  run_until([&] { return arrivals_.size() == 1 + kRefused; });
  clients_.push_back(connect());
  run_until([&, hung_up = false]() mutable {
    char byte = 0;
    hung_up = hung_up || ::recv(clients_.back().get(), &byte, 1, MSG_DONTWAIT) == 0;
    return hung_up;
  });
  EXPECT_EQ(arrivals_.size(), 1 + kRefused);
  EXPECT_EQ(doors_->connections(), 1 + kRefused);
  doors_->closed(2);
  EXPECT_NE(arrive(), "") << "there is room for a word again";
}

TEST_F(DoorsTest, AClientBeyondTheLimitGetsAPlaceThatIsFreeInTime) {
  open({.connections_max = 2, .place_wait = seconds(60)});
  EXPECT_EQ(arrive(), "");
  EXPECT_EQ(arrive(), "");
  wait_at_the_door();
  EXPECT_EQ(doors_->connections(), 3U);
  EXPECT_EQ(arrivals_.size(), 2U) << "nobody has been told of it";
  doors_->closed(1);
  run_until([&] { return arrivals_.size() == 3; });
  EXPECT_EQ(arrivals_[2].id, 3U);
  EXPECT_EQ(arrivals_[2].refusal, "");
  EXPECT_EQ(arrivals_[2].peer.rfind("127.0.0.1:", 0), 0U);
  EXPECT_EQ(doors_->connections(), 2U);
  doors_->closed(3);
  EXPECT_EQ(arrive(), "") << "its place is free like any other";
}

TEST_F(DoorsTest, AClientThatWaitedLongEnoughIsRefused) {
  constexpr auto kWait = milliseconds(100);
  open({.connections_max = 1, .place_wait = kWait});
  EXPECT_EQ(arrive(), "");
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(arrive(), "the server has its 1 connections; try again later");
  EXPECT_GE(std::chrono::steady_clock::now() - began, kWait);
  doors_->closed(2);  // a refused one has no place to leave
  wait_at_the_door();
  EXPECT_EQ(arrivals_.size(), 2U);
}

TEST_F(DoorsTest, PlacesAreGivenInTheOrderOfArrival) {
  open({.connections_max = 2, .place_wait = seconds(60)});
  EXPECT_EQ(arrive(), "");
  EXPECT_EQ(arrive(), "");
  for (int i = 0; i < 3; ++i) {
    wait_at_the_door();
  }
  doors_->closed(1);
  clients_.push_back(connect());  // it comes while a place is free, and others were there before
  run_until([&] { return arrivals_.size() == 3 && doors_->connections() == 5; });
  doors_->closed(2);
  doors_->closed(3);
  run_until([&] { return arrivals_.size() == 5; });
  EXPECT_EQ(arrivals_[2].id, 3U);
  EXPECT_EQ(arrivals_[3].id, 4U);
  EXPECT_EQ(arrivals_[4].id, 5U);
  doors_->closed(4);
  run_until([&] { return arrivals_.size() == 6; });
  EXPECT_EQ(arrivals_[5].id, 6U);
}

TEST_F(DoorsTest, WhoeverWaitsForAShareHoldsNobodyElseUp) {
  open({.connections_max = 3, .connections_per_address_max = 1, .place_wait = seconds(60)});
  EXPECT_EQ(arrive(), "");
  wait_at_the_door();
  EXPECT_EQ(arrive("127.0.0.2"), "") << "there are places";
  EXPECT_EQ(arrive("127.0.0.3"), "");
  wait_at_the_door("127.0.0.4");
  doors_->closed(3);
  run_until([&] { return arrivals_.size() == 4; });
  EXPECT_EQ(arrivals_[3].peer.rfind("127.0.0.4:", 0), 0U) << "of who came first the share is used";
  doors_->closed(1);
  run_until([&] { return arrivals_.size() == 5; });
  EXPECT_EQ(arrivals_[4].id, 2U);
}

TEST_F(DoorsTest, APlaceThatIsLeftAtOnceIsTheNextOnes) {
  open({.connections_max = 1, .place_wait = seconds(60)});
  EXPECT_EQ(arrive(), "");
  for (int i = 0; i < 3; ++i) {
    wait_at_the_door();
  }
  hangs_up_at_once_ = true;
  doors_->closed(1);
  EXPECT_EQ(arrivals_.size(), 1U) << "nobody is told from within";
  run_until([&] { return arrivals_.size() == 4; });
  EXPECT_EQ(doors_->connections(), 0U);
}

TEST_F(DoorsTest, WhoeverWaitsIsHungUpOnWhenItHasStopped) {
  open({.connections_max = 1, .place_wait = milliseconds(50)});
  EXPECT_EQ(arrive(), "");
  wait_at_the_door();
  doors_->stop_accepting();
  EXPECT_TRUE(is_hung_up(clients_[1]));
  EXPECT_EQ(doors_->connections(), 1U);
  doors_->closed(1);
  const auto later = loop_.call_after(milliseconds(100), [this] { loop_.stop(); });
  loop_.run();
  EXPECT_EQ(arrivals_.size(), 1U);
}

TEST_F(DoorsTest, AClientMayBeGivenUpWhenItComes) {
  open({.connections_max = 1});
  hangs_up_at_once_ = true;
  EXPECT_EQ(arrive(), "");
  EXPECT_EQ(arrive(), "");
  EXPECT_EQ(doors_->connections(), 0U);
  EXPECT_TRUE(is_hung_up(clients_[1]));
}

TEST_F(DoorsTest, AcceptsNobodyOnceItHasStopped) {
  open({});
  EXPECT_EQ(arrive(), "");
  const std::uint16_t port = doors_->port();
  doors_->stop_accepting();
  EXPECT_FALSE(connect().valid());
  EXPECT_EQ(doors_->port(), port);
  EXPECT_EQ(doors_->connections(), 1U);
  doors_->closed(1);
  EXPECT_TRUE(is_hung_up(clients_[0]));
}

TEST_F(DoorsTest, ClientsWaitWhileNoDescriptorIsLeft) {
  open({});
  clients_.push_back(connect());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::size_t came_early = 0;
  const auto later = loop_.call_after(milliseconds(20), [&] {
    came_early = arrivals_.size();
    ::setrlimit(RLIMIT_NOFILE, &before);
  });
  run_until([&] { return !arrivals_.empty(); });
  EXPECT_EQ(came_early, 0U);
  EXPECT_EQ(doors_->connections(), 1U);
}

// It begins to watch its port again after each time that it could not accept.
TEST_F(DoorsTest, ClientsWaitWhileEpollWatchesNothingMore) {
  open({});
  clients_.push_back(connect());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::optional<test::EpollShortage> shortage(std::in_place);
  const auto descriptors_are_back =
      loop_.call_after(milliseconds(20), [&] { ::setrlimit(RLIMIT_NOFILE, &before); });
  std::size_t came_early = 0;
  const auto all_is_back = loop_.call_after(milliseconds(300), [&] {
    came_early = arrivals_.size();
    shortage.reset();
  });
  run_until([&] { return !arrivals_.empty(); });
  EXPECT_EQ(came_early, 0U);
  EXPECT_EQ(doors_->connections(), 1U);
}

TEST_F(DoorsTest, SaysWhyItCannotOpen) {
  open({});
  const auto second = Doors::open(loop_, {.port = doors_->port()}, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace phalanx::keeper
