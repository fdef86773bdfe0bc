// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace phalanx::http {

// What a handler wants known beside what it has written, so that it can go on with an answer in
// another process. The server does not look at it.
using HandlerNotes = std::array<std::uint64_t, 4>;

enum class Stage : std::uint8_t {
  kReading,    // a request comes, or is awaited
  kAwaited,    // it is complete; nothing is answered yet
  kStreaming,  // a stream has begun
  kComplete    // the answer is complete, and perhaps not all sent
};

// How far a connection is, besides its bytes. Offsets count from the beginning of the connection,
// each direction for itself.
struct ConnectionState {
  Stage stage = Stage::kReading;
  bool keep_alive = true;  // what follows are those of the answer
  bool http_1_1 = true;
  bool chunked = false;
  bool is_sse = false;
  bool head_only = false;
  bool continued = false;  // kReading: "100 Continue" has been written
  bool in_body = false;    // kReading: the header is complete
  // On the steady clock modulo 2^32; 0: none. kReading: of that part of the request. Else until
  // when the client has to take some of what it has not taken.
  std::uint32_t deadline_ms = 0;
  std::uint32_t ordinal = 0;        // requests given to the handler, this one included
  std::uint64_t request_begin = 0;  // in what is received; kReading: of the next request
  std::uint64_t request_end = 0;    // from kAwaited on
  std::uint64_t drawn_id = 0;       // the request's id was drawn from this; 0: the client gave it
  HandlerNotes notes{};
  friend bool operator==(const ConnectionState&, const ConnectionState&) = default;
};

// Whether somebody who goes on needs what was received. Of the last answer of a connection nothing
// is left but to send it.
[[nodiscard]] constexpr bool needs_received(const ConnectionState& state) {
  return state.stage != Stage::kComplete || state.keep_alive;
}

// What a dead process left of a connection.
struct Resumption {
  ConnectionState state;
  // From state.request_begin on, as far as the socket was read; empty unless it is needed.
  std::string received;
  std::string to_send;  // rendered, and not taken by the socket
};

// Memory that outlives the process, for one connection: the bytes that were read and are still
// needed, those that were rendered and are not sent, and how far everything is. Whoever goes on
// reads the last published state and asks the kernel how far the socket got; so bytes are received
// straight into it, and what is rendered is published before it is sent.
//
// Destroying it says that nobody may go on with the connection: that comes before the socket is shut
// or closed, unless somebody else gets the connection at rest.
//
// Threads: the loop thread. Blocks: never.
// Failure: where memory is short nothing is kept of the connection from then on (lost()); it is
// served all the same.
class Journal {
 public:
  Journal() = default;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  virtual ~Journal() = default;

  // Where the next bytes of the socket are to be received, at least one; empty once lost. What is
  // there already stays where it is.
  [[nodiscard]] virtual std::span<char> room() = 0;

  // So many bytes have been received into room().
  virtual void received(std::size_t bytes) = 0;

  // Adds rendered bytes behind those before. Part of what is kept with the next publish().
  // `sent`: bytes that the socket has taken, from the beginning of the connection.
  virtual void append(std::string_view bytes, std::uint64_t sent) = 0;

  // From now on this is how far the connection is, with all that was appended. Received bytes
  // before state.request_begin, and appended ones before `sent`, are forgotten.
  virtual void publish(const ConnectionState& state, std::uint64_t sent) = 0;

  [[nodiscard]] virtual bool lost() const = 0;
};

}  // namespace phalanx::http
