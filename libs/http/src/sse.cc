// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/sse.h"

#include <algorithm>
#include <utility>

namespace phalanx::http {
namespace {

// CR, LF and CRLF all end a line of the stream, so each piece between them is a field of its own.
void append_data(std::string& out, std::string_view data) {
  std::size_t begin = 0;
  std::size_t feed = data.find('\n');
  while (true) {
    const std::string_view line = data.substr(begin, feed - begin);
    const std::size_t end = begin + std::min(line.find('\r'), line.size());
    out.append("data: ").append(data.substr(begin, end - begin)).push_back('\n');
    if (end == data.size()) {
      return;
    }
    const bool crlf = data[end] == '\r' && end + 1 == feed;
    begin = end + (crlf ? 2 : 1);
    if (feed != std::string_view::npos && begin > feed) {
      feed = data.find('\n', begin);
    }
  }
}

}  // namespace

std::string sse_event(std::string data) {
  if (data.find('\n') == std::string::npos && data.find('\r') == std::string::npos) {
    return std::move(data.insert(0, "data: ").append("\n\n"));  // as all JSON of this server
  }
  std::string out;
  out.reserve(data.size() + 8);
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
