// SPDX-License-Identifier: Apache-2.0
#include "ready_text.h"

#include "phalanx/base/printable.h"

namespace phalanx::app {

namespace {

// For a string of JSON between single quotes of a shell. Nothing in it moves the cursor.
std::string quoted(const std::string& name) {
  std::string text;
  for (const char byte : printable(name)) {
    if (byte == '\'') {
      text += "'\\''";
    } else {
      text += byte == '"' || byte == '\\' ? std::string{'\\', byte} : std::string{byte};
    }
  }
  return text;
}

}  // namespace

std::string ready_text(const settings::Options& options,
                       std::uint16_t port,
                       const std::string& model) {
  const bool is_ipv6 =
      options.host.find(':') != std::string::npos && !options.host.starts_with('[');
  const std::string host = is_ipv6 ? "[" + options.host + "]" : options.host;
  const std::string url = "http://" + host + ":" + std::to_string(port);
  return "ready " + url + "\ntry: curl " + url +
         "/v1/chat/completions -H 'content-type: application/json' -d '{\"model\": \"" +
         quoted(model) +
         "\", \"messages\": [{\"role\": \"user\", \"content\": \"count from 3 to 40\"}]}'\n";
}

}  // namespace phalanx::app
