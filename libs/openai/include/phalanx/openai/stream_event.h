// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/openai/responses.h"

namespace phalanx::openai {

// One event of a streamed answer, as a client reads it; of chat or of completions.
struct StreamEvent {
  struct Choice {
    std::uint32_t index = 0;
    std::string text;
    std::string finish_reason;  // "" while it goes on
    bool opens = false;         // the chunk that only names the role
  };
  std::vector<Choice> choices;
  std::optional<Usage> usage;
  std::optional<std::string> error;  // the message of an error event
};

// The data of one event, not "[DONE]".
//
// Errors: kDataLoss  not a JSON object, or a member of the wrong type
[[nodiscard]] Result<StreamEvent> parse_stream_event(std::string_view data);

// The message of an error body, or the beginning of the body if it is none.
[[nodiscard]] std::string error_message_of(std::string_view body);

// The ids of a model list.
// Errors: kDataLoss
[[nodiscard]] Result<std::vector<std::string>> parse_model_list(std::string_view body);

}  // namespace phalanx::openai
