// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/tcp_account.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

#include <netinet/in.h>

#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

namespace {

// States of TCP, as tcpi_state tells them (include/net/tcp_states.h of the kernel).
enum TcpState : std::uint8_t {
  kEstablished = 1,
  kFinWait1 = 4,
  kFinWait2 = 5,
  kTimeWait = 6,
  kCloseWait = 8,
  kLastAck = 9,
  kClosing = 11
};

constexpr int kReadings = 100;  // until two of them are equal

struct Reading {
  std::uint8_t state = 0;
  std::uint64_t bytes_acked = 0;
  std::uint64_t bytes_received = 0;
  int unsent = 0;  // SIOCOUTQ: not acknowledged by the peer
  int unread = 0;  // SIOCINQ
  friend bool operator==(const Reading&, const Reading&) = default;
};

std::optional<Reading> read_once(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  constexpr std::size_t kNeeded =
      offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received;
  Reading reading;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || length < kNeeded ||
      ::ioctl(fd, SIOCOUTQ, &reading.unsent) != 0 || ::ioctl(fd, SIOCINQ, &reading.unread) != 0) {
    return std::nullopt;
  }
  reading.state = info.tcpi_state;
  reading.bytes_acked = info.tcpi_bytes_acked;
  reading.bytes_received = info.tcpi_bytes_received;
  return reading;
}

// An acknowledgement moves bytes from one number to another between two calls.
Result<Reading> read_steady(int fd) {
  std::optional<Reading> last = read_once(fd);
  for (int i = 0; last && i < kReadings; ++i) {
    std::optional<Reading> next = read_once(fd);
    if (next == last) {
      return *last;
    }
    last = next;
  }
  if (last) {
    return unavailable("the numbers of a connection do not stand still");
  }
  return errno_error("the account of a connection", errno);
}

bool has_own_fin(std::uint8_t state) {
  return state == kFinWait1 || state == kFinWait2 || state == kClosing || state == kTimeWait ||
         state == kLastAck;
}

bool has_fin_of_peer(std::uint8_t state) {
  return state == kCloseWait || state == kLastAck || state == kClosing || state == kTimeWait;
}

// ---- the proof

struct Ends {
  UniqueFd server;  // accepted
  UniqueFd client;
};

// `plain`: an address of loopback, with port 0.
Result<Ends> connect_over(sockaddr* plain, socklen_t length) {
  const UniqueFd listener(::socket(plain->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Ends ends;
  ends.client.reset(::socket(plain->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.valid() || !ends.client.valid() || ::bind(listener.get(), plain, length) != 0 ||
      ::listen(listener.get(), 1) != 0 || ::getsockname(listener.get(), plain, &length) != 0 ||
      ::connect(ends.client.get(), plain, length) != 0) {
    return errno_error("a connection over loopback", errno);
  }
  ends.server.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int on = 1;
  if (!ends.server.valid() ||
      ::setsockopt(ends.server.get(), SOL_SOCKET, SO_OOBINLINE, &on, sizeof on) != 0) {
    return errno_error("accepting over loopback", errno);
  }
  return ends;
}

// Machines may have either address only.
Result<Ends> connected_ends() {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  if (auto ends = connect_over(reinterpret_cast<sockaddr*>(&six), sizeof six)) {
    return ends;
  }
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect_over(reinterpret_cast<sockaddr*>(&four), sizeof four);
}

Status expect(int fd, const TcpAccount& expected, const char* when) {
  PHALANX_TRY(const TcpAccount found, tcp_account(fd));
  if (found == expected) {
    return ok();
  }
  return unimplemented(std::string("this kernel counts connections in another way: ") + when +
                       " expected " + std::to_string(expected.received) + " bytes received and " +
                       std::to_string(expected.sent) + " sent, found " +
                       std::to_string(found.received) + " and " + std::to_string(found.sent));
}

// Waits until something is there to be read, so that the peer's segment has come.
bool arrived(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 1000) == 1;
}

Status prove_until_the_peer_ends() {
  PHALANX_TRY(const Ends ends, connected_ends());
  const int server = ends.server.get();
  const int client = ends.client.get();
  std::array<char, 16> bytes{};
  PHALANX_RETURN_IF_ERROR(expect(server, {0, 0}, "at the beginning"));
  if (::send(client, bytes.data(), 7, MSG_NOSIGNAL) != 7 || !arrived(server)) {
    return errno_error("sending over loopback", errno);
  }
  PHALANX_RETURN_IF_ERROR(expect(server, {0, 0}, "with seven bytes unread"));
  if (::recv(server, bytes.data(), 5, 0) != 5 ||
      ::send(server, bytes.data(), 11, MSG_NOSIGNAL) != 11 || !arrived(client)) {
    return errno_error("answering over loopback", errno);
  }
  PHALANX_RETURN_IF_ERROR(expect(server, {5, 11}, "with two bytes unread"));
  if (::shutdown(client, SHUT_WR) != 0 || ::recv(server, bytes.data(), 2, MSG_WAITALL) != 2 ||
      !arrived(server)) {
    return errno_error("closing over loopback", errno);
  }
  return expect(server, {7, 11}, "behind the end of the peer");
}

Status prove_behind_the_own_end() {
  PHALANX_TRY(const Ends ends, connected_ends());
  const int server = ends.server.get();
  std::array<char, 16> bytes{};
  if (::send(server, bytes.data(), 11, MSG_NOSIGNAL) != 11 || ::shutdown(server, SHUT_WR) != 0) {
    return errno_error("closing over loopback", errno);
  }
  PHALANX_RETURN_IF_ERROR(expect(server, {0, 11, true}, "behind its own end"));
  if (::recv(ends.client.get(), bytes.data(), 11, MSG_WAITALL) != 11 ||
      !arrived(ends.client.get())) {
    return errno_error("reading over loopback", errno);
  }
  return expect(server, {0, 11, true}, "when all of it has been read");
}

}  // namespace

Result<TcpAccount> tcp_account(int fd) {
  PHALANX_TRY(const Reading reading, read_steady(fd));
  if (reading.state != kEstablished && !has_own_fin(reading.state) &&
      !has_fin_of_peer(reading.state)) {
    return errno_error("the account of a connection", ENOTCONN);
  }
  TcpAccount account;
  account.shut = has_own_fin(reading.state);
  account.received = reading.bytes_received - static_cast<std::uint64_t>(reading.unread);
  account.sent = reading.bytes_acked + static_cast<std::uint64_t>(reading.unsent);
#ifndef PHALANX_MUTATE_NO_FIN_RULE
  account.received -= has_fin_of_peer(reading.state) ? 1U : 0U;
  account.sent -= account.shut ? 1U : 0U;
#endif
  return account;
}

Status check_tcp_account() {
  PHALANX_RETURN_IF_ERROR(prove_until_the_peer_ends());
  return prove_behind_the_own_end();
}

}  // namespace phalanx::os
