// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/http/exchange.h"
#include "phalanx/http/request_reader.h"
#include "phalanx/os/event_loop.h"

namespace phalanx::http {

struct ServerOptions {
  std::string address = "127.0.0.1";  // numeric IPv4 or IPv6 address, or "localhost"
  std::uint16_t port = 0;             // 0 = any free one
  int backlog = 4096;
  RequestLimits limits;
  std::size_t body_bytes_total_max = std::size_t{1} << 30;  // of all bodies being received; 503
  std::size_t connections_max = 8192;                       // further ones are answered 503
  // Of one address, or of one /64 of IPv6; further ones are answered 503. 0 = a quarter of
  // connections_max, and none for loopback, where a proxy may speak for everybody.
  std::size_t connections_per_address_max = 0;
  // As AccessPolicy has them; whether the server is on loopback is known from its address. 421,
  // 403.
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> allowed_origins;
  Duration header_timeout = std::chrono::seconds(10);  // first byte to end of header; 408
  Duration body_timeout = std::chrono::seconds(60);    // end of header to end of body; 408
  Duration idle_timeout = std::chrono::seconds(75);    // between two requests; closed silently
  Duration write_timeout =
      std::chrono::seconds(30);  // no byte taken while some are waiting; dropped
  std::size_t stream_pending_bytes_max = std::size_t{1} << 20;
  // A stream of type text/event-stream that says nothing for so long gets a comment line, so that
  // proxies and clients see it alive. 0 = never.
  Duration comment_interval = std::chrono::seconds(15);
  // Makes the body of answers that the server itself gives (400, 403, 404, 405, 408, 413, 415, 421,
  // 431, 500, 501, 503, 505). The server adds what the protocol demands (Allow, Retry-After,
  // Connection). Default: the message as text.
  std::function<Response(int status, const std::string& message)> format_error;
};

struct ServerCounters {
  std::uint64_t connections_accepted = 0;
  std::uint64_t connections_refused = 0;  // beyond connections_max or that of their address
  std::uint64_t requests = 0;             // given to the handler
  std::uint64_t requests_refused = 0;     // answered here: malformed, late, too large, not allowed
  std::uint64_t clients_gone = 0;         // went before their answer was complete
  std::uint64_t clients_too_slow = 0;     // dropped: pending limit or write timeout
};

// HTTP/1.1 server on one loop: keep-alive, pipelining (one request in work per connection, the next
// ones wait in the kernel and in at most header_bytes_max of buffer), chunked bodies both ways,
// HEAD without body, TCP_NODELAY. It keeps reading while an answer is under way, so a client that
// goes is seen at once; a client that shuts down only its sending side counts as gone.
//
// Ownership: borrows the loop, which must outlive it.
// Threads: the loop thread (listen() may run before the loop does). Destroying it closes
// everything; no callback runs afterwards.
class Server {
 public:
  // Errors: kInvalidArgument    the address is none, or an allowed host or origin is none
  //         kFailedPrecondition the port is taken, or may not be bound by this user
  [[nodiscard]] static Result<std::unique_ptr<Server>> listen(os::EventLoop& loop,
                                                              ServerOptions options,
                                                              Handler handler);
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  virtual ~Server() = default;

  [[nodiscard]] virtual std::uint16_t port() const = 0;

  // New connections are refused by the kernel from now on; those there go on.
  virtual void stop_accepting() = 0;

  // Closes connections that wait for a request; the others say "Connection: close" and close after
  // their answer.
  virtual void close_idle() = 0;

  // stop_accepting() and close_idle(), then waits for the answers under way. After `deadline`
  // `on_deadline` runs: handlers end their answers in it with an error of their own. Whoever has
  // not begun to answer then is answered 503 (its on_close runs); what is not complete, or not
  // taken by its client, a second later is cut (likewise). `done(cut)` gets the number of answers
  // that were open at the deadline, and runs once, from the loop.
  virtual void close(Duration deadline,
                     std::function<void()> on_deadline,
                     std::function<void(std::size_t cut)> done) = 0;

  [[nodiscard]] virtual std::size_t connections() const = 0;
  [[nodiscard]] virtual std::size_t exchanges() const = 0;  // requests not completely answered
  [[nodiscard]] virtual const ServerCounters& counters() const = 0;
};

}  // namespace phalanx::http
