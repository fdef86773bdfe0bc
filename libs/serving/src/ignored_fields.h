// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "phalanx/http/message.h"
#include "phalanx/openai/api_error.h"

namespace phalanx::serving {

// What a server says about fields of requests that it does not know: each is logged once, so that a
// misspelt one is found, and every answer names those of its request.
//
// Threads: the loop thread.
// Memory: bounded, whatever clients send.
class IgnoredFields {
 public:
  // Logs the names that were not seen before; past kMaxNames different ones none is logged.
  void note(const std::string& route, const std::vector<std::string>& names);

 private:
  static constexpr std::size_t kMaxNames = 256;

  std::set<std::string> seen_;
};

// The names for the header of an answer: visible ASCII, separated by commas, at most 512 bytes;
// "..." stands for what is left out.
[[nodiscard]] std::string ignored_fields_text(const std::vector<std::string>& names);

// Names them in an answer; "" adds nothing.
void add_ignored_fields(const std::string& names, http::Headers* headers);

// 400 about the first of them, or nothing if there is none.
[[nodiscard]] std::optional<openai::ApiError> refuse_unknown(const std::vector<std::string>& names);

}  // namespace phalanx::serving
