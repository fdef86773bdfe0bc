// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "phalanx/http/journal.h"
#include "phalanx/http/message.h"

namespace phalanx::http {

// What another process has done for a request before it died.
struct Resumed {
  HandlerNotes notes{};    // the last that are known of
  bool streaming = false;  // start_stream() was called, and what was written until then is sent
};

// The answer to one request: either respond() once, or start_stream(), any number of write(),
// finish(). It may be given at once or later from any callback of the loop.
//
// Ownership: shared. When the last reference goes and there is no complete answer, the server
// answers 500, or cuts a stream short.
// Threads: the loop thread.
// Blocks: never.
// Failure: once the client has gone every call is a no-op; calls out of order are a defect and end
// the process.
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  virtual void respond(Response response) = 0;

  // Sends the head of an answer of unknown length.
  virtual void start_stream(int status, Headers headers) = 0;

  // Queues one chunk, in order. If more than ServerOptions::stream_pending_bytes_max are waiting
  // for a slow client, the connection is dropped and on_close called. What was queued while the
  // client had taken all before it does not count, however large.
  virtual void write(std::string data) = 0;

  virtual void finish() = 0;

  // Null for a new request. If a stream had begun, the handler does not start it again, and its
  // first write() is what comes behind the noted state. One that cannot go on may respond(): the
  // stream is cut then.
  [[nodiscard]] virtual const Resumed* resumed() const = 0;

  // What is to be known if another process has to go on. Kept together with what was written until
  // this callback of the loop ends.
  virtual void note(const HandlerNotes& notes) = 0;

  // So many bytes more are kept for this request, here or elsewhere, until its answer is sent:
  // ServerOptions::memory_bytes_max counts them.
  virtual void hold(std::size_t bytes) = 0;

  // Bytes that the socket has not taken yet.
  [[nodiscard]] virtual std::size_t pending_bytes() const = 0;

  // False once the client has gone or the answer is complete.
  [[nodiscard]] virtual bool open() const = 0;

  // `callback` runs once, from the loop and never from inside a call on this object, if the
  // client goes (closes, resets, or is dropped as too slow) before the answer is complete;
  // soon, if it has gone already. It is forgotten when the answer is complete.
  virtual void on_close(std::function<void()> callback) = 0;
};

using Handler = std::function<void(Request, std::shared_ptr<Exchange>)>;

}  // namespace phalanx::http
