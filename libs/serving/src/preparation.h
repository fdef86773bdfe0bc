// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/openai/requests.h"
#include "phalanx/serving/served_model.h"

#include "answer.h"

namespace phalanx::serving {

// A body, and what the loop knows of it.
struct Unprepared {
  std::string body;
  openai::ResponseHead head;  // of the answer
  std::uint64_t seed = 0;     // used if the client gave none
};

// What comes out of a body: generations to run, or the answer that the client gets instead.
struct Prepared {
  AnswerOptions answer;
  std::vector<GenerationRequest> prompts;
  std::vector<std::string> ignored_fields;
  std::optional<openai::ApiError> error;
};

// Pure; any thread. How long they take is the client's choice: never on the loop.
[[nodiscard]] Prepared prepare_chat(const ServedModel& model, Unprepared unprepared);
[[nodiscard]] Prepared prepare_completion(const ServedModel& model, Unprepared unprepared);

[[nodiscard]] openai::RequestBounds bounds_of(const ServedModel& model);

// 404 if a client asked for another model.
[[nodiscard]] std::optional<openai::ApiError> check_model(const ServedModel& model,
                                                          const std::string& asked);

}  // namespace phalanx::serving
