// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/sse_parser.h"

#include <utility>

namespace phalanx::http {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

SseParser::SseParser(std::function<void(SseEvent)> on_event, std::size_t event_bytes_max)
    : on_event_(std::move(on_event)), event_bytes_max_(event_bytes_max) {}

Status SseParser::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (std::exchange(after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const std::size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    too_large_ = too_large_ || line_.size() + event_.data.size() + part.size() > event_bytes_max_;
    if (too_large_) {
      return resource_exhausted("an event of the stream is larger than " +
                                std::to_string(event_bytes_max_) + " bytes");
    }
    line_.append(part);
    if (end == std::string_view::npos) {
      return ok();
    }
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line();
  }
  return ok();
}

bool SseParser::inside_event() const {
  return !line_.empty() || has_fields_;
}

void SseParser::end_line() {
  std::string_view line = line_;
  if (std::exchange(first_line_, false) && line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  if (line.empty()) {
    SseEvent event = std::exchange(event_, {});
    const bool complete = std::exchange(has_data_, false);
    has_fields_ = false;
    line_.clear();
    if (complete) {
      on_event_(std::move(event));
    }
    return;
  }
  if (line.front() == ':') {
    ++comments_;
    line_.clear();
    return;
  }
  has_fields_ = true;
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) {
    value.remove_prefix(1);
  }
  if (name == "data") {
    if (std::exchange(has_data_, true)) {
      event_.data.push_back('\n');
    }
    event_.data.append(value);
  } else if (name == "event") {
    event_.type = value;
  }
  line_.clear();
}

}  // namespace phalanx::http
