// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/base/result.h"

namespace phalanx::os {

// What has passed between a TCP connection and the programs that use it, counted by the kernel from
// the beginning of the connection. It outlives whoever read and wrote: another process that holds a
// duplicate of the socket learns from it how far a dead one got.
struct TcpAccount {
  std::uint64_t received = 0;  // bytes that were taken out of the socket
  std::uint64_t sent = 0;      // bytes that the socket has taken
  bool shut = false;           // its sending side has been shut down
  friend bool operator==(const TcpAccount&, const TcpAccount&) = default;
};

// The account of `fd`, an accepted connection with SO_OOBINLINE (without, an urgent byte is counted
// wrongly). True only while nobody reads or writes.
//
//   received = tcpi_bytes_received − SIOCINQ, less one for the peer's FIN
//   sent     = tcpi_bytes_acked + SIOCOUTQ, less one for an own FIN
//
// Blocks: never.
// Errors: those of the kernel if it is no TCP connection, or was reset; kUnavailable if its numbers
// do not stand still.
[[nodiscard]] Result<TcpAccount> tcp_account(int fd);

// Proves on a connection of its own over loopback that this kernel counts as tcp_account() takes it
// to.
// Errors: kUnimplemented naming what differs; those of the kernel.
[[nodiscard]] Status check_tcp_account();

}  // namespace phalanx::os
