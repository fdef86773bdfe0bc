// SPDX-License-Identifier: Apache-2.0
#include "field_faults.h"

#include <algorithm>

#include "phalanx/http/message.h"

#include "characters.h"
#include "shown_text.h"

namespace phalanx::http {
std::string fault_of_field(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\r'));
  const std::string_view name = line.substr(0, line.find(':'));
  const std::string_view value =
      without_blanks(line.substr(std::min(name.size() + 1, line.size())));
  const std::string came = "; came \"" + shown_text(value) + "\"";
  if (equal_ignoring_case(name, "content-length")) {
    return "Content-Length must be a decimal number, and come once and without "
           "Transfer-Encoding" +
           came;
  }
  if (equal_ignoring_case(name, "transfer-encoding")) {
    return "Transfer-Encoding must come once, and without Content-Length" + came;
  }
  if (equal_ignoring_case(name, "connection") || equal_ignoring_case(name, "proxy-connection")) {
    return std::string(name) + " must be names separated by commas" + came;
  }
  return "the value of the header field " + shown_text(name) + " is malformed";
}

}  // namespace phalanx::http
