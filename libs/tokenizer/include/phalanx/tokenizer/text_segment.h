// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace phalanx::tokenizer {

// A stretch of a rendered prompt and where it came from. Text that a client sent (message content,
// role, name, tool schema, template argument) is user data; text that stands in the model's own
// template is not, and only that may become a special token.
struct TextSegment {
  std::string text;
  bool is_user_data = false;

  friend bool operator==(const TextSegment&, const TextSegment&) = default;
};

}  // namespace phalanx::tokenizer
