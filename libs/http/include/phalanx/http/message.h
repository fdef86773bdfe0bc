// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/http/body.h"

namespace phalanx::http {

// Header fields in the order they came. Names compare without regard to case, as HTTP demands.
class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<std::pair<std::string, std::string>> fields) : fields_(fields) {}

  void add(std::string name, std::string value);

  // Replaces every field of that name by one.
  void set(std::string_view name, std::string value);

  // The first field of that name, or null.
  [[nodiscard]] const std::string* find(std::string_view name) const;

  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& fields() const {
    return fields_;
  }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// A request whose body has arrived completely, within the limits of the server.
struct Request {
  std::string method;  // "POST", as sent
  std::string target;  // as sent: "/v1/models?x=1"
  std::string path;    // the target without query, percent-decoded: "/v1/models"
  std::string query;   // behind the first '?', as sent; empty if there is none
  Headers headers;
  Body body;
  std::string peer;  // "127.0.0.1:41000"
  // X-Request-Id if the client sent a usable one (1 … 128 visible ASCII characters), else drawn
  // here. The answer carries it.
  std::string id;
  std::uint64_t connection = 0;  // ConnectionInfo::id
  std::uint32_t ordinal = 0;  // which of its connection's requests to the handler; the first is 1
};

struct Response {
  int status = 200;
  Headers headers;  // content-length, connection and date are the server's to add
  Body body;
};

// Of a 503 and a 429: the value of Retry-After, in seconds.
inline constexpr const char* kRetryAfterSeconds = "2";

[[nodiscard]] Response text_response(int status,
                                     std::string body,
                                     std::string content_type = "text/plain; charset=utf-8");
[[nodiscard]] Response json_response(int status, std::string body);

// "Not Found" for 404; "Unknown" for a status without a phrase.
[[nodiscard]] std::string_view reason_phrase(int status);

// A token of HTTP: at least one letter, digit or one of !#$%&'*+-.^_`|~
[[nodiscard]] bool is_field_name(std::string_view text);

[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace phalanx::http
