// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/http/exchange.h"
#include "phalanx/http/journal.h"
#include "phalanx/http/request_reader.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::http {

struct ServerOptions {
  RequestLimits limits;
  // Of all that clients make the server hold: what is received of a request until it is answered and
  // its answer is sent, the body counted before it is read (a chunked one as the largest there may
  // be); what is written and not taken; what Exchange::hold() adds. With a journal the bytes count
  // twice. Beyond it nothing more is read. A client that waits so goes on in its turn, or is
  // answered 503 when its deadline comes. Answers and what another process has left are never held
  // up, so they may exceed it.
  std::size_t memory_bytes_max = std::size_t{1} << 30;
  // As AccessPolicy has them. 421, 403.
  bool on_loopback = true;  // only this machine reaches the port that clients come by
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
  // Makes the body of answers that the server itself gives (400, 403, 404, 405, 408, 413, 415, 417,
  // 421, 431, 500, 501, 503, 505). The server adds what the protocol demands (Allow, Retry-After,
  // Connection). Default: the message as text.
  std::function<Response(int status, const std::string& message)> format_error;
  // What ends a stream of type text/event-stream that nobody goes on with, as its last events.
  // Empty: it is cut.
  std::function<std::string(const std::string& message)> format_stream_failure = nullptr;
  // Runs before the loop works for a connection and, with 0, behind that. May be empty.
  std::function<void(std::uint64_t id)> mark = nullptr;
  // Runs once for each connection, from the loop and never from inside a call on an Exchange, when
  // its descriptor is closed here; behind the on_close of its requests. May be empty.
  std::function<void(std::uint64_t id)> on_closed;
  // Runs each time a connection has come to rest, likewise: every answer has been given to its
  // socket, and of the next request nothing has been read. So many bytes have been read and written
  // in all, ConnectionInfo's included. May be empty.
  std::function<void(std::uint64_t id, std::uint64_t received, std::uint64_t sent)> on_rest =
      nullptr;
  // The same of a connection that was let go of; on_closed is not told of it.
  std::function<void(std::uint64_t id, std::uint64_t received, std::uint64_t sent)> on_released =
      nullptr;
};

// A connection that is handed to a server.
struct ConnectionInfo {
  std::uint64_t id = 0;        // as the requests and on_closed name it; the caller keeps it unique
  std::string peer;            // as the requests show it: "127.0.0.1:41000"
  std::string refusal;         // not empty: nothing is read, the client is answered 503 with it
  bool goes_on = false;        // between two requests; else its first one is awaited
  Duration waited{};           // for it, with whoever had the connection before
  std::uint64_t received = 0;  // bytes that others have read from it and written to it
  std::uint64_t sent = 0;
  std::unique_ptr<Journal> journal{};  // null: nothing of it outlives this process
  // It was left in the middle of a request or of an answer, and is gone on with. `journal`, if
  // there is one, has all of it already, so that this process may die as well.
  std::optional<Resumption> resumption{};
  // Not empty: a request that it was left in is not tried again, but fails so (500, or the end of
  // its stream), and the connection is closed.
  std::string failure{};
};

struct ServerCounters {
  std::uint64_t requests = 0;          // given to the handler
  std::uint64_t requests_refused = 0;  // answered here: malformed, late, too large, not allowed
  std::uint64_t clients_gone = 0;      // went before their answer was complete
  std::uint64_t clients_too_slow = 0;  // dropped: pending limit or write timeout
  std::uint64_t memory_waits = 0;      // times a client was not read from for memory_bytes_max
};

// HTTP/1.1 server on one loop, for connections that somebody else accepts: keep-alive, pipelining
// (one request in work per connection, the next ones wait in the kernel and in at most
// header_bytes_max of buffer), chunked bodies both ways, HEAD without body, TCP_NODELAY. It keeps
// reading while an answer is under way, so a client that goes is seen at once, but behind
// header_bytes_max of further requests; a client that shuts down only its sending side counts as
// gone.
//
// Others may hold duplicates of a connection's socket. A connection that ends is shut down, and
// reset where bytes are thrown away, before it is closed: its client sees the end at once, and what
// comes behind it is answered by a reset of the kernel, then or when the last duplicate is closed.
//
// Ownership: borrows the loop, which must outlive it.
// Threads: the loop thread (create() may run before the loop does). Destroying it ends every
// connection; no callback runs afterwards.
class Server {
 public:
  // Errors: kInvalidArgument an allowed host or origin is none
  [[nodiscard]] static Result<std::unique_ptr<Server>> create(os::EventLoop& loop,
                                                              ServerOptions options,
                                                              Handler handler);
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  virtual ~Server() = default;

  // Serves a connected stream socket, from where it was left if that was in the middle of
  // something. After close_idle() one that is idle ends at once; so does one that the loop cannot
  // watch. on_closed is told in every case.
  virtual void adopt(os::UniqueFd socket, ConnectionInfo info) = 0;

  // Closes connections that wait for a request; the others say "Connection: close" and close after
  // their answer.
  virtual void close_idle() = 0;

  // Lets go of every connection as soon as it is at rest: its descriptor is closed here, and its
  // client sees nothing of that, so that somebody else can go on with a duplicate. Requires
  // on_released.
  virtual void release_all() = 0;

  // When answers have taken long enough, behind close_idle() or without it: whoever has not begun
  // to answer is answered 503 (its on_close runs); what is not complete, or not taken by its
  // client, a second later is cut (likewise). So is a connection that is adopted from then on,
  // which has its own second.
  virtual void end_answers() = 0;

  [[nodiscard]] virtual std::size_t connections() const = 0;
  [[nodiscard]] virtual std::size_t memory_bytes() const = 0;  // as memory_bytes_max counts them
  [[nodiscard]] virtual const ServerCounters& counters() const = 0;
};

}  // namespace phalanx::http
