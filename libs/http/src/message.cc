// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/message.h"

#include <algorithm>
#include <array>

#include "characters.h"

namespace phalanx::http {
namespace {

constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

struct Phrase {
  int status;
  std::string_view text;
};
constexpr std::array kPhrases = {Phrase{100, "Continue"},
                                 Phrase{200, "OK"},
                                 Phrase{202, "Accepted"},
                                 Phrase{204, "No Content"},
                                 Phrase{304, "Not Modified"},
                                 Phrase{400, "Bad Request"},
                                 Phrase{401, "Unauthorized"},
                                 Phrase{403, "Forbidden"},
                                 Phrase{404, "Not Found"},
                                 Phrase{405, "Method Not Allowed"},
                                 Phrase{408, "Request Timeout"},
                                 Phrase{409, "Conflict"},
                                 Phrase{413, "Payload Too Large"},
                                 Phrase{415, "Unsupported Media Type"},
                                 Phrase{417, "Expectation Failed"},
                                 Phrase{421, "Misdirected Request"},
                                 Phrase{422, "Unprocessable Entity"},
                                 Phrase{429, "Too Many Requests"},
                                 Phrase{431, "Request Header Fields Too Large"},
                                 Phrase{500, "Internal Server Error"},
                                 Phrase{501, "Not Implemented"},
                                 Phrase{503, "Service Unavailable"},
                                 Phrase{504, "Gateway Timeout"},
                                 Phrase{505, "HTTP Version Not Supported"}};

}  // namespace

bool is_field_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_character);
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

void Headers::add(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

void Headers::set(std::string_view name, std::string value) {
  std::erase_if(fields_, [&](const auto& field) { return equal_ignoring_case(field.first, name); });
  fields_.emplace_back(std::string(name), std::move(value));
}

const std::string* Headers::find(std::string_view name) const {
  for (const auto& [key, value] : fields_) {
    if (equal_ignoring_case(key, name)) {
      return &value;
    }
  }
  return nullptr;
}

Response text_response(int status, std::string body, std::string content_type) {
  return {.status = status,
          .headers = {{"content-type", std::move(content_type)}},
          .body = std::move(body)};
}

Response json_response(int status, std::string body) {
  return text_response(status, std::move(body), "application/json");
}

std::string_view reason_phrase(int status) {
  for (const Phrase& phrase : kPhrases) {
    if (phrase.status == status) {
      return phrase.text;
    }
  }
  return "Unknown";
}

}  // namespace phalanx::http
