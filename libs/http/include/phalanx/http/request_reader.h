// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/http/message.h"

namespace phalanx::http {

struct RequestLimits {
  // Request line and fields; likewise the chunk extensions of a body, and its trailer fields.
  std::size_t header_bytes_max = std::size_t{32} << 10;
  std::size_t header_fields_max = 128;
  std::size_t body_bytes_max = std::size_t{32} << 20;
};

// Takes one HTTP/1.x request out of a stream of bytes. No sockets: the same code reads the network,
// the tests and the fuzzer. Body by content-length or chunked; chunk extensions and trailer fields
// are read, bounded and dropped. HTTP/1.2 and above is read as HTTP/1.1. A refusal says what was
// expected and what came; whether and how a request is refused does not depend on how its bytes
// were cut.
//
// Threads: one at a time.
// Memory: at most the limits. Every byte of a header or a body that is offered is used at once.
class RequestReader {
 public:
  enum class State {
    kHeader,    // wants more bytes
    kBody,      // the header is complete; wants more bytes
    kComplete,  // take() gives the request
    kRefused    // refusal() says why; the connection cannot go on after the answer
  };
  struct Refusal {
    int status = 400;  // 400, 413, 417, 431, 501 or 505, or what the check said
    std::string message;
  };
  // Sees each request once its header is complete, before its body; what it gives is the refusal.
  using HeadCheck = std::function<std::optional<Refusal>(const Request& head)>;

  explicit RequestReader(RequestLimits limits, HeadCheck check = nullptr);
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;
  ~RequestReader();

  // Reads from `bytes` and tells how many were used up; the rest must be offered again, with what
  // has come behind it. After kComplete or kRefused nothing more is used.
  [[nodiscard]] std::size_t feed(std::string_view bytes);

  [[nodiscard]] State state() const;
  [[nodiscard]] const Refusal& refusal() const;

  // Its header, as far as it has come: of one that is refused what was read before. Until take().
  [[nodiscard]] Request head() const;

  // Whether the request line, as far as it has come, says HEAD: whatever is answered has no body.
  [[nodiscard]] bool is_head() const;

  // A byte of the request has come.
  [[nodiscard]] bool started() const;

  // The client waits for "100 Continue" before it sends the body; one that expects anything else is
  // refused. True at most once per request.
  [[nodiscard]] bool take_expects_continue();

  // The most that the body may come to: what the header says, or for a chunked one the limit. Valid
  // from kBody on.
  [[nodiscard]] std::size_t body_bytes_max() const;

  // Bytes of body held so far.
  [[nodiscard]] std::size_t body_bytes() const;

  // Whether the client wants the connection kept, and speaks HTTP/1.1 (knows chunks). Valid from
  // kBody on.
  [[nodiscard]] bool keep_alive() const;
  [[nodiscard]] bool is_http_1_1() const;

  // The request, without peer and id; the reader is then ready for the next one. Requires
  // kComplete.
  [[nodiscard]] Request take();

  // What came of a body that nobody waits for any more. Leaves none.
  [[nodiscard]] Body take_body();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phalanx::http
