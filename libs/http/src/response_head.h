// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/http/message.h"

namespace phalanx::http {

// How the head of an answer ends up on the wire, besides what the handler said.
struct Framing {
  bool keep_alive = true;
  bool http_1_1 = true;
  bool chunked = false;
  std::optional<std::size_t> content_length;
  std::string_view request_id;  // "" = none
  const Headers* access_fields = nullptr;
};

// Status line and header fields with the empty line behind them. Line ends inside a field's value
// become spaces: a value can never add a field.
[[nodiscard]] std::string response_head(int status, const Headers& headers, const Framing& framing);

// What stands before a chunk of `bytes`; kLineEnd stands behind it.
// Requires: not 0, as an empty chunk ends the body.
[[nodiscard]] std::string chunk_head(std::size_t bytes);

inline constexpr std::string_view kLineEnd = "\r\n";
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// An answer with this status never has a body.
[[nodiscard]] constexpr bool is_bodiless(int status) {
  return status / 100 == 1 || status == 204 || status == 304;
}

}  // namespace phalanx::http
