// SPDX-License-Identifier: Apache-2.0
#include "field_faults.h"

#include <algorithm>

#include "phalanx/http/message.h"

#include "characters.h"
#include "shown_text.h"

namespace phalanx::http {
namespace {

std::string fault_of_value(std::string_view name, std::string_view value) {
  while (!value.empty() && is_blank(value.front())) {
    value.remove_prefix(1);
  }
  const std::string came = "; came \"" + shown_text(value) + "\"";
  if (equal_ignoring_case(name, "content-length")) {
    return "Content-Length must be a decimal number, and come without Transfer-Encoding" + came;
  }
  if (equal_ignoring_case(name, "transfer-encoding")) {
    return "Transfer-Encoding must come once, and without Content-Length" + came;
  }
  if (equal_ignoring_case(name, "connection") || equal_ignoring_case(name, "proxy-connection")) {
    return std::string(name) + " must be names separated by commas" + came;
  }
  return "the value of the header field " + shown_text(name) + " is malformed";
}

}  // namespace

std::string fault_of_field(std::string_view bytes) {
  const auto end = std::find_if_not(bytes.begin(), bytes.end(), is_field_character);
  const std::string_view line(bytes.begin(), end);
  const std::string_view name = line.substr(0, line.find(':'));
  const bool is_named = name.size() < line.size() && is_field_name(name);
  if (!is_named && !line.empty()) {
    return "a header line must be \"name: value\" without spaces in the name; came \"" +
           shown_text(name) + (name.size() < line.size() ? ":" : "") + "\"";
  }
  const std::string_view tail = bytes.substr(line.size());
  if (!tail.empty() && !tail.starts_with("\r\n")) {
    // Of a CR that stands alone it is the next byte that is wrong.
    const bool is_return = tail.size() > 1 && tail[0] == '\r';
    return "a header line must end in CR LF and hold no other control byte; came " +
           shown_byte(tail[is_return ? 1 : 0]) + (is_return ? " behind the CR" : "") + " of \"" +
           shown_text(name) + "\"";
  }
  return fault_of_value(name, line.substr(std::min(name.size() + 1, line.size())));
}

}  // namespace phalanx::http
