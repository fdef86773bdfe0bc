// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "phalanx/base/result.h"

namespace phalanx::http {

struct SseEvent {
  std::string type;  // "" if the stream names none
  std::string data;  // data lines joined by '\n'

  friend bool operator==(const SseEvent&, const SseEvent&) = default;
};

// Takes events out of a stream of bytes that may be cut anywhere. Line ends are LF, CR or CRLF;
// comments, fields other than data and event, and a byte-order mark at the start are skipped; an
// event without data is none.
//
// Threads: one at a time.
// Memory: at most one event of event_bytes_max.
class SseParser {
 public:
  explicit SseParser(std::function<void(SseEvent)> on_event,
                     std::size_t event_bytes_max = std::size_t{16} << 20);

  // Errors: kResourceExhausted  an event or line is larger than event_bytes_max
  [[nodiscard]] Status feed(std::string_view bytes);

  // True if the stream stands inside an event or line: if it ends here, it was cut.
  [[nodiscard]] bool inside_event() const;

  [[nodiscard]] std::uint64_t comments() const { return comments_; }

 private:
  void end_line();

  std::function<void(SseEvent)> on_event_;
  std::size_t event_bytes_max_;
  std::string line_;
  SseEvent event_;
  bool has_data_ = false;
  bool has_fields_ = false;
  bool after_cr_ = false;
  bool too_large_ = false;
  bool first_line_ = true;
  std::uint64_t comments_ = 0;
};

}  // namespace phalanx::http
