// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

inline constexpr std::size_t kMaxControlRecordBytes = std::size_t{128} << 10;
inline constexpr std::size_t kMaxControlRecordFds = 32;

// One record with the descriptors that came beside it, all close-on-exec.
struct ControlMessage {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

enum class ControlSent {
  kQueued,
  kWouldBlock,  // the peer does not read: try again before a deadline, then treat it as faulty
  // Processes of this user have sent so many descriptors that nobody has taken yet that the kernel
  // lets no more go: try again. Only with descriptors, and the peer may have no part in it.
  kTooManyDescriptors,
  kClosed  // the peer is gone
};

// ControlSent::kTooManyDescriptors, for people. kResourceExhausted.
[[nodiscard]] Error too_many_descriptors();

struct ControlWouldBlock {};
struct ControlEnd {};  // every other end is closed: the peer process is gone
using ControlReceived = std::variant<ControlMessage, ControlWouldBlock, ControlEnd>;

// One end of a SOCK_SEQPACKET pair between a parent and a child: records keep their borders, and
// descriptors travel beside them. Its end of file tells each side of the other's death.
//
// Threads: one sender and one receiver at a time.
// Blocks: only send_until() and receive_until().
class ControlSocket {
 public:
  ControlSocket() = default;

  // Two connected ends, non-blocking and close-on-exec.
  [[nodiscard]] static Result<std::pair<ControlSocket, ControlSocket>> make_pair();

  [[nodiscard]] static bool is_one(int fd);  // a local SEQPACKET socket

  // Takes an inherited descriptor and makes it non-blocking and close-on-exec.
  // Errors: kInvalidArgument if it is no local SEQPACKET socket.
  [[nodiscard]] static Result<ControlSocket> adopt(UniqueFd fd);

  // Sends one record of 1 … kMaxControlRecordBytes bytes with at most kMaxControlRecordFds
  // descriptors, which stay the caller's too. Never raises SIGPIPE.
  // Errors: kInvalidArgument outside those bounds.
  [[nodiscard]] Result<ControlSent> send(std::string_view bytes, std::span<const int> fds = {});

  // The same without descriptors; waits until there is room. A peer that has gone takes all.
  // Errors: also kDeadlineExceeded.
  [[nodiscard]] Status send_until(std::string_view bytes, SteadyTime deadline);

  // Errors: kDataLoss if a record or its descriptors exceeded the bounds (the record is gone).
  [[nodiscard]] Result<ControlReceived> receive();

  // For processes without a loop: waits for a record until `deadline`.
  // Errors: kDeadlineExceeded; kUnavailable the peer is gone; otherwise as receive().
  [[nodiscard]] Result<ControlMessage> receive_until(SteadyTime deadline);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool valid() const { return fd_.valid(); }
  [[nodiscard]] UniqueFd release() { return std::move(fd_); }
  void close() { fd_.reset(); }

 private:
  explicit ControlSocket(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace phalanx::os
