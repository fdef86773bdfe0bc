// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/tcp_listener.h"

#include <cerrno>
#include <system_error>

#include "phalanx/os/net_address.h"

#include "socket_address.h"

namespace phalanx::os {

namespace {

Error listen_error(const std::string& address, std::uint16_t port, int reason) {
  const std::string where = "cannot listen on " + address + ":" + std::to_string(port);
  if (reason == EADDRINUSE) {
    return failed_precondition(where +
                               ": the port is taken by another process; choose another port or "
                               "stop that process");
  }
  if (reason == EACCES) {
    return failed_precondition(
        where + ": this user may not bind the port; ports below 1024 belong to root");
  }
  if (reason == EADDRNOTAVAIL) {
    return failed_precondition(where + ": no interface of this machine has that address (yet)");
  }
  if (reason == EINVAL || reason == EAFNOSUPPORT) {
    return invalid_argument(where + ": " + std::generic_category().message(reason));
  }
  return errno_error(where, reason);
}

// Passed over in one call. More are none: a filter of system calls and a security module refuse as
// a firewall does, with EPERM, and take nobody from those who wait.
constexpr int kGoneClients = 64;

// Whether accept() failed because of the one client that it would have given: Linux hands what has
// become of a connection to whoever accepts it.
bool is_gone_client(int reason) {
  switch (reason) {
    case ECONNABORTED:
    case EINTR:
    case EPERM:  // by a rule of the firewall
    case EPROTO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<TcpListener> TcpListener::listen(const std::string& address,
                                        std::uint16_t port,
                                        int backlog) {
  const bool is_bracketed = address.size() > 2 && address.front() == '[' && address.back() == ']';
  const std::string numeric = address == "localhost" ? "127.0.0.1"
                              : is_bracketed         ? address.substr(1, address.size() - 2)
                                                     : address;
  auto endpoint = parse_socket_address(numeric, port);
  if (!endpoint) {
    return invalid_argument(
        "expected a numeric address to listen on, as 127.0.0.1, 0.0.0.0 or ::; came \"" + address +
        "\"");
  }
  UniqueFd fd(::socket(endpoint->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  socklen_t size = endpoint->size();
  // The port of a server that ended a moment ago counts as taken without SO_REUSEADDR.
  if (!fd.valid() || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd.get(), &endpoint->any, size) != 0 || ::listen(fd.get(), backlog) != 0 ||
      ::getsockname(fd.get(), &endpoint->any, &size) != 0) {
    return listen_error(address, port, errno);
  }
  return TcpListener(std::move(fd), endpoint->port(), is_loopback_address(numeric));
}

Result<std::optional<AcceptedSocket>> TcpListener::accept() {
  for (int gone = 0;; ++gone) {
    SocketAddress client;
    socklen_t size = sizeof client;
    UniqueFd fd(::accept4(fd_.get(), &client.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      // An urgent byte is one like any other: see tcp_account.h.
      const int on = 1;
      ::setsockopt(fd.get(), SOL_SOCKET, SO_OOBINLINE, &on, sizeof on);
      return std::optional(AcceptedSocket{std::move(fd), client.text(), client.port()});
    }
    const int reason = errno;
    if (reason == EAGAIN || reason == EWOULDBLOCK) {
      return std::optional<AcceptedSocket>();
    }
    if (reason == ENOBUFS) {
      return resource_exhausted("accepting a client: no memory is left for its socket");
    }
    if (!is_gone_client(reason) || gone == kGoneClients) {
      return errno_error("accepting a client", reason);
    }
  }
}

}  // namespace phalanx::os
