// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "phalanx/base/result.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

// A connection that a client has opened.
struct AcceptedSocket {
  UniqueFd fd;          // non-blocking and close-on-exec
  std::string address;  // of the client, numeric
  std::uint16_t port = 0;
};

// A TCP port on which clients may connect. Destroying it closes the port: the kernel refuses
// further clients and resets those that nobody has accepted.
//
// Threads: one at a time.
// Blocks: never.
class TcpListener {
 public:
  // `address` is a numeric IPv4 or IPv6 address, the latter in brackets or not, or "localhost",
  // which is 127.0.0.1. Port 0 is any free one.
  // Errors: kInvalidArgument    the address is none
  //         kFailedPrecondition no interface has the address, which may still come; the port is
  //         taken, or may not be bound by this user
  [[nodiscard]] static Result<TcpListener> listen(const std::string& address,
                                                  std::uint16_t port,
                                                  int backlog);

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] bool on_loopback() const { return on_loopback_; }  // only this machine reaches it
  [[nodiscard]] int fd() const { return fd_.get(); }               // readable when a client waits

  // The next client that waits; nothing if none does. One that has gone again is passed over.
  // Errors: kResourceExhausted  no descriptor or memory is left: the client waits on, so that fd()
  //                             stays readable
  //         kFailedPrecondition this process may accept nobody; fd() stays readable, too
  [[nodiscard]] Result<std::optional<AcceptedSocket>> accept();

 private:
  TcpListener(UniqueFd fd, std::uint16_t port, bool on_loopback)
      : fd_(std::move(fd)), port_(port), on_loopback_(on_loopback) {}

  UniqueFd fd_;
  std::uint16_t port_ = 0;
  bool on_loopback_ = false;
};

}  // namespace phalanx::os
