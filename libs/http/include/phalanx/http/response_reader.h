// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/http/message.h"

namespace phalanx::http {

// Takes one HTTP/1.x response out of a stream of bytes, its body piece by piece. No sockets.
// Interim answers (1xx) are skipped.
//
// Threads: one at a time.
// Memory: the header limit, plus one feed.
class ResponseReader {
 public:
  explicit ResponseReader(bool answer_to_head = false,
                          std::size_t header_bytes_max = std::size_t{64} << 10);
  ResponseReader(const ResponseReader&) = delete;
  ResponseReader& operator=(const ResponseReader&) = delete;
  ~ResponseReader();

  // Reads from `bytes` and tells how many were used up; the rest must be offered again, with what
  // has come behind it.
  //
  // Errors: kDataLoss  not HTTP, or the header, the extensions of all chunks or the trailer fields
  //                    are larger than `header_bytes_max`
  [[nodiscard]] Result<std::size_t> feed(std::string_view bytes);

  // The peer has closed.
  // Errors: kDataLoss the response was cut short, and where.
  [[nodiscard]] Status feed_end();

  [[nodiscard]] bool has_head() const;
  [[nodiscard]] bool complete() const;

  // Requires has_head().
  [[nodiscard]] int status() const;
  [[nodiscard]] const Headers& headers() const;
  [[nodiscard]] bool keep_alive() const;

  // The bytes of body that came since the last call.
  [[nodiscard]] std::string take_body();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phalanx::http
