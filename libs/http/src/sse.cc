// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/sse.h"

namespace phalanx::http {
namespace {

// CR, LF and CRLF all end a line of the stream, so each piece between them is a field of its own.
void append_data(std::string& out, std::string_view data) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = data.find_first_of("\r\n", begin);
    out.append("data: ").append(data.substr(begin, end - begin)).push_back('\n');
    if (end == std::string_view::npos) {
      return;
    }
    const bool crlf = data[end] == '\r' && end + 1 < data.size() && data[end + 1] == '\n';
    begin = end + (crlf ? 2 : 1);
  }
}

}  // namespace

std::string sse_event(std::string_view data) {
  std::string out;
  out.reserve(data.size() + 8);
  append_data(out, data);
  out.push_back('\n');
  return out;
}

std::string sse_event(std::string_view type, std::string_view data) {
  std::string out;
  out.reserve(type.size() + data.size() + 16);
  out.append("event: ").append(type).push_back('\n');
  append_data(out, data);
  out.push_back('\n');
  return out;
}

std::string sse_comment(std::string_view text) {
  std::string out = ": ";
  out.append(text).append("\n\n");
  return out;
}

Headers sse_headers() {
  return {{"content-type", "text/event-stream; charset=utf-8"},
          {"cache-control", "no-cache"},
          {"x-accel-buffering", "no"}};
}

}  // namespace phalanx::http
