// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fields.h"

namespace phalanx::openai {

// A checked conversation as the template takes it.
struct Conversation {
  std::string json;
  std::size_t count = 0;
};

[[nodiscard]] Refusal read_messages(const Field& field,
                                    std::size_t messages_max,
                                    std::vector<std::string>* ignored,
                                    Conversation* out);

// chat_template_kwargs: an object that may not set what the request itself says.
[[nodiscard]] Refusal read_template_variables(const Field& field, std::string* out);

}  // namespace phalanx::openai
