// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/control_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

namespace phalanx::os {

namespace {

constexpr std::size_t kFdSpace = CMSG_SPACE(kMaxControlRecordFds * sizeof(int));

// The kernel counts its own overhead per record, so twice the largest record is asked for.
constexpr int kSendBufferBytes = static_cast<int>(2 * kMaxControlRecordBytes);

Status prepare(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
      ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    return errno_error("preparing a control socket", errno);
  }
  if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes) != 0) {
    return errno_error("sizing a control socket", errno);
  }
  return ok();
}

std::vector<UniqueFd> take_fds(msghdr& header) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

// Until the socket is ready for `events`, or for a while.
Status wait_for(int fd, short events, SteadyTime deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock().now());
  if (left.count() <= 0) {
    return deadline_exceeded(events == POLLIN ? "no control record came in time"
                                              : "no control record was taken in time");
  }
  pollfd entry{fd, events, 0};
  const auto limit = std::min<std::chrono::milliseconds::rep>(left.count(), 60'000);
  if (::poll(&entry, 1, static_cast<int>(limit)) < 0 && errno != EINTR) {
    return errno_error("waiting for a control record", errno);
  }
  return ok();
}

}  // namespace

Result<std::pair<ControlSocket, ControlSocket>> ControlSocket::make_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return errno_error("creating a control socket", errno);
  }
  ControlSocket first{UniqueFd(ends[0])};
  ControlSocket second{UniqueFd(ends[1])};
  PHALANX_RETURN_IF_ERROR(prepare(first.fd()));
  PHALANX_RETURN_IF_ERROR(prepare(second.fd()));
  return std::pair(std::move(first), std::move(second));
}

bool ControlSocket::is_one(int fd) {
  int type = 0;
  socklen_t length = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET;
}

Result<ControlSocket> ControlSocket::adopt(UniqueFd fd) {
  if (!is_one(fd.get())) {
    return invalid_argument("descriptor " + std::to_string(fd.get()) + " is no control socket");
  }
  PHALANX_RETURN_IF_ERROR(prepare(fd.get()));
  return ControlSocket(std::move(fd));
}

Result<ControlSent> ControlSocket::send(std::string_view bytes, std::span<const int> fds) {
  if (bytes.empty() || bytes.size() > kMaxControlRecordBytes || fds.size() > kMaxControlRecordFds) {
    return invalid_argument("a control record of " + std::to_string(bytes.size()) + " bytes with " +
                            std::to_string(fds.size()) + " descriptors; allowed are 1 to " +
                            std::to_string(kMaxControlRecordBytes) + " bytes and " +
                            std::to_string(kMaxControlRecordFds) + " descriptors");
  }
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};  // sendmsg() writes nothing there
  alignas(cmsghdr) std::array<char, kFdSpace> space{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = space.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    return ControlSent::kQueued;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
    return ControlSent::kWouldBlock;
  }
  if (errno == ETOOMANYREFS) {
    return ControlSent::kTooManyDescriptors;
  }
  if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) {
    return ControlSent::kClosed;
  }
  return errno_error("sending a control record", errno);
}

Error too_many_descriptors() {
  return resource_exhausted(
      "processes of this user have more descriptors on their way to each other than they may "
      "(ulimit -n)");
}

Result<ControlReceived> ControlSocket::receive() {
  // Of the thread: most records are small, and room for the largest costs more than to read one.
  thread_local std::vector<char> room(kMaxControlRecordBytes);
  ControlMessage message;
  iovec part{room.data(), room.size()};
  alignas(cmsghdr) std::array<char, kFdSpace> space{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = space.data();
  header.msg_controllen = space.size();
  ssize_t got = 0;
  // ECONNRESET comes once, before what a peer has sent that ended with records unread.
  do {
    got = ::recvmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  if (got < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return ControlReceived(ControlWouldBlock{});
    }
    return errno_error("receiving a control record", errno);
  }
  message.fds = take_fds(header);
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return data_loss("a control record exceeds " + std::to_string(kMaxControlRecordBytes) +
                     " bytes or " + std::to_string(kMaxControlRecordFds) +
                     " descriptors, or no descriptor is left here");
  }
  if (got == 0) {
    return ControlReceived(ControlEnd{});
  }
  message.bytes.assign(room.data(), static_cast<std::size_t>(got));
  return ControlReceived(std::move(message));
}

Status ControlSocket::send_until(std::string_view bytes, SteadyTime deadline) {
  for (;;) {
    PHALANX_TRY(const ControlSent sent, send(bytes));
    if (sent != ControlSent::kWouldBlock) {
      return ok();
    }
    PHALANX_RETURN_IF_ERROR(wait_for(fd_.get(), POLLOUT, deadline));
  }
}

Result<ControlMessage> ControlSocket::receive_until(SteadyTime deadline) {
  for (;;) {
    PHALANX_TRY(ControlReceived received, receive());
    if (auto* message = std::get_if<ControlMessage>(&received)) {
      return std::move(*message);
    }
    if (std::holds_alternative<ControlEnd>(received)) {
      return unavailable("the other end of the control socket is gone");
    }
    PHALANX_RETURN_IF_ERROR(wait_for(fd_.get(), POLLIN, deadline));
  }
}

}  // namespace phalanx::os
