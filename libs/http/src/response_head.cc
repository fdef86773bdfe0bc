// SPDX-License-Identifier: Apache-2.0
#include "response_head.h"

#include <array>
#include <charconv>
#include <ctime>

namespace phalanx::http {
namespace {

// RFC 9110 wants a date in English whatever the locale, so strftime cannot be used. Made once a
// second.
const std::string& http_date() {
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  thread_local std::time_t made_at = 0;
  thread_local std::string text;
  const std::time_t now = std::time(nullptr);
  if (now != made_at || text.empty()) {
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 64> line{};
    const int length = std::snprintf(line.data(),
                                     line.size(),
                                     "%s, %02d %s %04d %02d:%02d:%02d GMT",
                                     kDays.at(static_cast<std::size_t>(parts.tm_wday)),
                                     parts.tm_mday,
                                     kMonths.at(static_cast<std::size_t>(parts.tm_mon)),
                                     parts.tm_year + 1900,
                                     parts.tm_hour,
                                     parts.tm_min,
                                     parts.tm_sec);
    text.assign(line.data(), static_cast<std::size_t>(length));
    made_at = now;
  }
  return text;
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  const std::size_t begin = out.size();
  out.append(value);
  for (std::size_t i = begin; i < out.size(); ++i) {
    if (out[i] == '\r' || out[i] == '\n' || out[i] == '\0') {
      out[i] = ' ';
    }
  }
  out.append("\r\n");
}

}  // namespace

std::string response_head(int status, const Headers& headers, const Framing& framing) {
  std::string out;
  out.reserve(256);
  out.append(framing.http_1_1 ? "HTTP/1.1 " : "HTTP/1.0 ");
  out.append(std::to_string(status)).push_back(' ');
  out.append(reason_phrase(status)).append("\r\n");
  append_field(out, "date", http_date());
  for (const auto& [name, value] : headers.fields()) {
    append_field(out, name, value);
  }
  if (framing.access_fields != nullptr) {
    for (const auto& [name, value] : framing.access_fields->fields()) {
      append_field(out, name, value);
    }
  }
  if (!framing.request_id.empty()) {
    append_field(out, "x-request-id", framing.request_id);
  }
  if (framing.content_length) {
    append_field(out, "content-length", std::to_string(*framing.content_length));
  }
  if (framing.chunked) {
    append_field(out, "transfer-encoding", "chunked");
  }
  if (!framing.keep_alive) {
    append_field(out, "connection", "close");
  } else if (!framing.http_1_1) {
    append_field(out, "connection", "keep-alive");
  }
  return out.append("\r\n");
}

std::string chunk_head(std::size_t bytes) {
  std::array<char, 18> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), bytes, 16).ptr;
  return std::string(digits.data(), end).append(kLineEnd);
}

}  // namespace phalanx::http
