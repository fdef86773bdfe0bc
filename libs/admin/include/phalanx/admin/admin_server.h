// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "phalanx/base/result.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/wire/admin_messages.h"

namespace phalanx::admin {

// The operator's entrance: an abstract local socket, so that no file outlives the leader. A client
// sends one request and gets one answer back, each a frame behind its header
// (wire/frame_header.h). Only the leader's own user and root are heard; the kernel tells who the
// peer is. A frame of another version, or one that does not decode, is answered with a refusal; who
// sends no frame at all gets one line of text that says what is expected.
//
// Bounds: a request of 64 KB; 16 clients at a time, further ones are refused; 10 s for a client to
// send its request and take its answer.
// Threads: the loop thread.
// Ownership: borrows the loop, which must outlive it.
class AdminServer {
 public:
  // Sends the answer, which wire::check() accepts; may be called later, once.
  using Reply = std::function<void(const wire::AdminAnswer&)>;
  using Handler = std::function<void(const wire::AdminRequest& request, Reply reply)>;

  // Errors: kFailedPrecondition if the name is taken (a server of this user on the same port is
  // running).
  [[nodiscard]] static Result<std::unique_ptr<AdminServer>> listen(os::EventLoop& loop,
                                                                   const std::string& name,
                                                                   Handler handler);
  virtual ~AdminServer() = default;
};

// Name of the socket of the server on `port` of user `uid`.
[[nodiscard]] std::string admin_socket_name(std::uint32_t uid, std::uint16_t port);

}  // namespace phalanx::admin
