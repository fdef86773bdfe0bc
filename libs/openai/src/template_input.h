// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "phalanx/openai/requests.h"

#include "fields.h"

namespace phalanx::openai {

// Reads the members of a request that go to the chat template, one at a time, and then what they
// mean together.
class TemplateInputReader {
 public:
  // `ignored` receives the names of members that have no effect; it outlives the reader.
  TemplateInputReader(const RequestBounds& bounds, std::vector<std::string>* ignored)
      : bounds_(bounds), ignored_(ignored) {}

  // Whether `field` is one of them; `refusal` then says whether it is refused.
  [[nodiscard]] bool read(const Field& field, Refusal* refusal);

  // After the last field: what depends on several of them.
  [[nodiscard]] Refusal finish();

  [[nodiscard]] TemplateInput take() { return std::move(input_); }

 private:
  [[nodiscard]] Refusal read_tool_choice(const Field& field);
  [[nodiscard]] Refusal read_effort(const Field& field);
  [[nodiscard]] Refusal read_thinking(const Field& field);
  void add_variables();
  [[nodiscard]] Refusal finish_final_message();

  const RequestBounds& bounds_;
  std::vector<std::string>* ignored_;
  TemplateInput input_;
  std::optional<bool> add_generation_prompt_;
  std::optional<bool> continue_final_message_;
  std::optional<std::string> effort_;
  std::optional<bool> enable_thinking_;
  std::optional<bool> thinking_;  // the same, sent as the type of an object
  bool variables_have_effort_ = false;
  bool variables_have_thinking_ = false;
};

}  // namespace phalanx::openai
