// SPDX-License-Identifier: Apache-2.0
#include "phalanx/obs/trace.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

namespace phalanx::obs {

namespace {

void append_json_text(std::string& out, std::string_view text) {
  out += '"';
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (byte < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", byte);
      out += code.data();
    } else {
      out += letter;
    }
  }
  out += '"';
}

std::string microseconds(Duration duration) {
  std::array<char, 32> text{};
  std::snprintf(text.data(),
                text.size(),
                "%.3f",
                std::chrono::duration<double, std::micro>(duration).count());
  return text.data();
}

}  // namespace

TraceRing::TraceRing(std::size_t capacity) {
  events_.resize(std::max<std::size_t>(capacity, 1));
}

void TraceRing::add(const TraceEvent& event) {
  const std::lock_guard lock(mutex_);
  events_[added_ % events_.size()] = event;
  ++added_;
}

std::uint64_t TraceRing::added() const {
  const std::lock_guard lock(mutex_);
  return added_;
}

std::string TraceRing::chrome_json(std::string_view process_name, int pid) const {
  const std::lock_guard lock(mutex_);
  const std::string process = std::to_string(pid);
  std::string out = "{\"traceEvents\":[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" + process +
                    ",\"args\":{\"name\":";
  append_json_text(out, process_name);
  out += "}}";
  const std::uint64_t kept = std::min<std::uint64_t>(added_, events_.size());
  for (std::uint64_t i = added_ - kept; i < added_; ++i) {
    const TraceEvent& event = events_[i % events_.size()];
    out += ",\n{\"ph\":\"X\",\"name\":";
    append_json_text(out, event.name);
    out += ",\"cat\":";
    append_json_text(out, event.category);
    out += ",\"pid\":" + process + ",\"tid\":" + std::to_string(event.track) +
           ",\"ts\":" + microseconds(event.start.time_since_epoch()) +
           ",\"dur\":" + microseconds(event.duration) + "}";
  }
  out += "]}\n";
  return out;
}

}  // namespace phalanx::obs
