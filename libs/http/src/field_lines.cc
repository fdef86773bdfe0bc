// SPDX-License-Identifier: Apache-2.0
#include "field_lines.h"

#include <utility>

#include "phalanx/http/message.h"

#include "characters.h"
#include "shown_text.h"

namespace phalanx::http {
namespace {

std::string_view name_of(std::string_view line) {
  return line.substr(0, line.find(':'));
}

bool is_named(std::string_view line) {
  const std::string_view name = name_of(line);
  return name.size() < line.size() && is_field_name(name);
}

// Of a line up to the byte that cannot stand there, which may be its CR. Values may be secret and
// are not repeated.
std::string fault_of(std::string_view line, char byte, bool behind_return) {
  const std::string_view name = name_of(line);
  if (!line.empty() && !is_named(line)) {
    return "a header line must be \"name: value\" without spaces in the name; came \"" +
           shown_text(name) + (name.size() < line.size() ? ":" : "") + "\"";
  }
  return "a header line must end in CR LF and hold no other control byte; came " +
         shown_byte(byte) + (behind_return ? " behind the CR" : "") +
         (line.empty() ? " of an empty line" : " of \"" + shown_text(name) + "\"");
}

}  // namespace

void FieldLines::take(std::string_view bytes, std::size_t before, const RequestLimits& limits) {
  for (; at_ < bytes.size() && !complete_ && !refusal_; ++at_) {
    if (before + at_ == limits.header_bytes_max) {
      return refuse(431,
                    "the request line and header fields are larger than " +
                        std::to_string(limits.header_bytes_max) + " bytes");
    }
    step(bytes, limits);
  }
}

void FieldLines::step(std::string_view bytes, const RequestLimits& limits) {
  const char byte = bytes[at_];
  const std::string_view line = bytes.substr(line_, at_ - line_);
  if (returned_) {
    byte == '\n' ? end_line(limits)
                 : refuse(400, fault_of(line.substr(0, line.size() - 1), byte, true));
    return;
  }
  // Read as one field by some, and as two by others.
  if (line.empty() && fields_ > 0 && is_blank(byte)) {
    return refuse(400, "a header field goes on in a second line, which HTTP/1.1 forbids");
  }
  if (is_field_character(byte)) {
    return;
  }
  if (byte != '\r' || !(line.empty() || is_named(line))) {
    return refuse(400, fault_of(line, byte, false));
  }
  returned_ = true;
}

void FieldLines::end_line(const RequestLimits& limits) {
  returned_ = false;
  complete_ = at_ == line_ + 1;
  line_ = at_ + 1;
  fields_ += complete_ ? 0U : 1U;
  if (fields_ > limits.header_fields_max) {
    refuse(431,
           "there are more than " + std::to_string(limits.header_fields_max) + " header fields");
  }
}

void FieldLines::refuse(int status, std::string message) {
  refusal_ = {status, std::move(message)};
}

}  // namespace phalanx::http
