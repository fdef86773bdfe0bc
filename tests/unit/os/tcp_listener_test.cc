// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/tcp_listener.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>

#include "phalanx/os/net_address.h"

namespace phalanx::os {
namespace {

// A client of this machine, or an empty descriptor.
UniqueFd connect_to(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* const any = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(fd.get(), any, sizeof address) == 0 ? std::move(fd) : UniqueFd();
}

bool is_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 10'000) == 1;
}

TEST(TcpListener, AcceptsClientsInTurnAndNamesThem) {
  auto listener = TcpListener::listen("127.0.0.1", 0, 16);
  ASSERT_TRUE(listener) << listener.error().to_string();
  EXPECT_TRUE(listener->on_loopback());
  const auto none = listener->accept();
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  const UniqueFd client = connect_to(listener->port());
  ASSERT_TRUE(client.valid());
  ASSERT_TRUE(is_readable(listener->fd()));
  const auto accepted = listener->accept();
  ASSERT_TRUE(accepted && *accepted);
  EXPECT_EQ((*accepted)->address, "127.0.0.1");
  sockaddr_in own{};
  socklen_t size = sizeof own;
  ASSERT_EQ(::getsockname(client.get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  EXPECT_EQ((*accepted)->port, ntohs(own.sin_port));
  EXPECT_NE(::fcntl((*accepted)->fd.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl((*accepted)->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(TcpListener, RefusesClientsOnceItIsGone) {
  std::uint16_t port = 0;
  {
    const auto listener = TcpListener::listen("localhost", 0, 16);
    ASSERT_TRUE(listener);
    port = listener->port();
    EXPECT_TRUE(connect_to(port).valid());
  }
  EXPECT_FALSE(connect_to(port).valid());
  EXPECT_TRUE(TcpListener::listen("localhost", port, 16)) << "the port is free at once";
}

TEST(TcpListener, NamesThePortThatIsTaken) {
  const auto first = TcpListener::listen("127.0.0.1", 0, 16);
  ASSERT_TRUE(first);
  const auto second = TcpListener::listen("127.0.0.1", first->port(), 16);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(second.error().message(),
            "cannot listen on 127.0.0.1:" + std::to_string(first->port()) +
                ": the port is taken by another process; choose another port or stop that process");
}

// As URLs have it, and the ready line.
TEST(TcpListener, TakesAnAddressInBrackets) {
  const auto bare = TcpListener::listen("::1", 0, 16);
  if (!bare) {
    GTEST_SKIP() << "this machine has no IPv6: " << bare.error().message();
  }
  EXPECT_TRUE(TcpListener::listen("[::1]", 0, 16));
}

TEST(TcpListener, RefusesAnAddressThatIsNone) {
  for (const char* address : {"not.an.address", "", "127.1", "[127.0.0.1", "[]"}) {
    const auto listener = TcpListener::listen(address, 0, 16);
    ASSERT_FALSE(listener) << address;
    EXPECT_EQ(listener.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(listener.error().message(),
              "expected a numeric address to listen on, as 127.0.0.1, 0.0.0.0 or ::; came \"" +
                  std::string(address) + "\"");
  }
}

// It may be one that the network has not given this machine yet.
TEST(TcpListener, AnAddressThatNoInterfaceHasIsNoMalformedOne) {
  const auto listener = TcpListener::listen("192.0.2.1", 0, 16);
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(listener.error().message(),
            "cannot listen on 192.0.2.1:0: no interface of this machine has that address (yet)");
}

TEST(TcpListener, ServesClientsOfBothFamilies) {
  auto listener = TcpListener::listen("::", 0, 16);
  if (!listener) {
    GTEST_SKIP() << "this machine has no IPv6: " << listener.error().message();
  }
  EXPECT_FALSE(listener->on_loopback());
  const UniqueFd client = connect_to(listener->port());
  ASSERT_TRUE(client.valid());
  ASSERT_TRUE(is_readable(listener->fd()));
  const auto accepted = listener->accept();
  ASSERT_TRUE(accepted && *accepted);
  EXPECT_EQ((*accepted)->address, "::ffff:127.0.0.1");
  EXPECT_EQ(address_key((*accepted)->address), "127.0.0.1");
}

TEST(TcpListener, SaysThatNoDescriptorIsLeftAndKeepsTheClientWaiting) {
  auto listener = TcpListener::listen("127.0.0.1", 0, 16);
  ASSERT_TRUE(listener);
  const UniqueFd client = connect_to(listener->port());
  ASSERT_TRUE(is_readable(listener->fd()));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto refused = listener->accept();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
  const auto accepted = listener->accept();
  EXPECT_TRUE(accepted && *accepted);
}

// From now on accept4() answers EPERM and takes no client.
bool forbid_accepting() {
  sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_accept4, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{static_cast<unsigned short>(std::size(rules)), rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

[[noreturn]] void accept_where_it_is_forbidden() {
  auto listener = TcpListener::listen("127.0.0.1", 0, 16);
  const UniqueFd client = connect_to(listener->port());
  if (!is_readable(listener->fd()) || !forbid_accepting()) {
    ::_exit(2);
  }
  ::alarm(5);
  const auto accepted = listener->accept();
  ::_exit(!accepted && accepted.error().code() == Code::kFailedPrecondition ? 0 : 1);
}

// EPERM may be about one client, and then the next one is asked for.
TEST(TcpListener, AsksNotForEverWhereAcceptingIsForbidden) {
  EXPECT_EXIT(accept_where_it_is_forbidden(), testing::ExitedWithCode(0), "");
}

TEST(NetAddress, KnowsLoopbackInBothFamilies) {
  for (const char* address : {"127.0.0.1", "127.8.7.6", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback_address(address)) << address;
  }
  for (const char* address : {"128.0.0.1", "0.0.0.0", "::", "::2", "::ffff:10.0.0.1", "x", ""}) {
    EXPECT_FALSE(is_loopback_address(address)) << address;
  }
}

TEST(NetAddress, OneHostIsOneKey) {
  EXPECT_EQ(address_key("10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(address_key("::ffff:10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(address_key("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(address_key("2001:db8:1:2::9"), "2001:db8:1:2::/64");
  EXPECT_NE(address_key("2001:db8:1:3::9"), address_key("2001:db8:1:2::9"));
  EXPECT_EQ(address_key("fe80::1%1"), "fe80::/64");
  EXPECT_EQ(address_key("unknown"), "unknown");
}

}  // namespace
}  // namespace phalanx::os
