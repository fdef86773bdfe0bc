// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/http/message.h"
#include "phalanx/os/event_loop.h"

namespace phalanx::http {

struct ClientRequest {
  std::string host = {};  // name or numeric address, an IPv6 one without brackets
  std::uint16_t port = 80;
  std::string method = "GET";
  std::string target = "/";
  Headers headers = {};  // host, unless it is there, and content-length are added
  std::string body = {};
  Duration connect_timeout = std::chrono::seconds(10);
  Duration total_timeout{0};  // from send() to the end; 0 = none
};

struct ClientCallbacks {
  std::function<void()> on_connected = {};  // there is a connection; again where it is replaced
  std::function<void(int status, const Headers&)> on_head = {};  // may be empty
  std::function<void(std::string_view bytes)> on_data = {};      // body as it comes; may be empty
  // Exactly once, last. Success means that the response is complete as its framing says, whatever
  // its status.
  //
  // Errors: kUnavailable       no connection, or reset
  //         kDeadlineExceeded  a timeout of the request
  //         kDataLoss          the response was cut short or is not HTTP
  //         kCancelled         cancel()
  std::function<void(Status)> on_end = {};
};

struct ClientOptions {
  std::size_t idle_connections_max = 1024;  // kept for reuse, all hosts together
};

// HTTP/1.1 client on one loop. Connections are kept and used again; a kept connection that turns
// out to be closed before a byte of the answer came is replaced by a new one, once. But what is
// neither GET nor HEAD and has been sent to its end has failed then: a server may have begun it.
//
// Ownership: borrows the loop, which must outlive it.
// Threads: the loop thread.
class Client {
 public:
  // One request under way. Destroying it drops the request; no callback runs afterwards.
  class Call {
   public:
    Call() = default;
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    virtual ~Call() = default;

    // Closes the connection; on_end(kCancelled) follows from the loop, unless it has run already.
    virtual void cancel() = 0;
  };

  [[nodiscard]] static std::unique_ptr<Client> create(os::EventLoop& loop,
                                                      ClientOptions options = {});
  Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  virtual ~Client() = default;

  // Starts a request; callbacks come from the loop, never from inside send(). Calls must not
  // outlive the client.
  [[nodiscard]] virtual std::unique_ptr<Call> send(ClientRequest request,
                                                   ClientCallbacks callbacks) = 0;
};

}  // namespace phalanx::http
