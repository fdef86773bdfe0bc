// SPDX-License-Identifier: Apache-2.0
#include "request_line.h"

#include <utility>

#include "characters.h"
#include "shown_text.h"

namespace phalanx::http {
namespace {

constexpr std::string_view kVersion = "HTTP/1.1";
constexpr std::size_t kMajorAt = 5;
constexpr std::size_t kMinorAt = 7;
constexpr char kTlsHandshake = 0x16;

bool is_target_character(char c) {
  return static_cast<unsigned char>(c) > 0x20 && c != 0x7F;
}

std::string line_fault(std::string_view before, char byte) {
  if (before.empty() && byte == kTlsHandshake) {
    return "this port speaks plain HTTP, and what came begins a TLS connection: use http:// "
           "instead of https://";
  }
  return "a request line must be \"METHOD target HTTP/1.1\" with single spaces, and end in CR LF; "
         "came " +
         shown_byte(byte) +
         (before.empty() ? " at its beginning" : " behind \"" + shown_text(before) + "\"");
}

}  // namespace

void RequestLine::take(std::string_view bytes, const RequestLimits& limits) {
  for (; at_ < bytes.size() && !complete() && !refusal_; ++at_) {
    if (at_ == limits.header_bytes_max) {
      return refuse(431,
                    "the request line and header fields are larger than " +
                        std::to_string(limits.header_bytes_max) + " bytes");
    }
    if (!fits(bytes)) {
      return refuse(400, line_fault(bytes.substr(0, at_), bytes[at_]));
    }
  }
  if (complete()) {
    finish(bytes);
  }
}

bool RequestLine::fits(std::string_view bytes) {
  const char byte = bytes[at_];
  const bool ends = byte == ' ' && at_ > begin_;
  switch (part_) {
    case Part::kMethod:
    case Part::kTarget:
      if (ends) {
        is_head_ = is_head_ || (part_ == Part::kMethod && bytes.substr(0, at_) == "HEAD");
        part_ = part_ == Part::kMethod ? Part::kTarget : Part::kVersion;
        begin_ = at_ + 1;
        return true;
      }
      return part_ == Part::kMethod ? is_token_character(byte) : is_target_character(byte);
    case Part::kVersion:
      return fits_version(byte);
    case Part::kEnd:
      part_ = byte == '\n' ? Part::kComplete : part_;
      return complete();
    case Part::kComplete:
      return false;
  }
  return false;
}

bool RequestLine::fits_version(char byte) {
  const std::size_t place = at_ - begin_;
  if (place == kVersion.size()) {
    part_ = Part::kEnd;
    return byte == '\r';
  }
  return place == kMajorAt || place == kMinorAt ? is_digit(byte) : byte == kVersion[place];
}

void RequestLine::finish(std::string_view bytes) {
  const std::string_view version = bytes.substr(begin_, kVersion.size());
  if (version[kMajorAt] != '1') {
    refuse(505, "this server speaks HTTP/1.1 and HTTP/1.0; came \"" + shown_text(version) + "\"");
  }
}

std::optional<std::string> RequestLine::as_http_1_1(std::string_view bytes) const {
  if (bytes[begin_ + kMinorAt] <= '1') {
    return std::nullopt;
  }
  std::string line(bytes.substr(0, at_));
  line[begin_ + kMinorAt] = '1';
  return line;
}

void RequestLine::refuse(int status, std::string message) {
  part_ = Part::kMethod;
  refusal_ = {status, std::move(message)};
}

}  // namespace phalanx::http
