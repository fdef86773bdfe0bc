// SPDX-License-Identifier: Apache-2.0
#include "phalanx/openai/stream_event.h"

#include <algorithm>
#include <limits>

#include "fields.h"

namespace phalanx::openai {
namespace {

Error malformed(const std::string& what) {
  return data_loss("malformed event: " + what);
}

// The member as text; absent and null are "".
Result<std::string> text_member(const json::Value& object, std::string_view key) {
  const json::Value* value = object.find(key);
  if (value == nullptr || value->is_null()) {
    return std::string();
  }
  if (const std::string* text = value->as_string()) {
    return *text;
  }
  return malformed(std::string(key) + " is " + json::describe(*value) + ", not a string");
}

Result<StreamEvent::Choice> parse_choice(const json::Value& value) {
  StreamEvent::Choice choice;
  if (value.as_object() == nullptr) {
    return malformed("a choice is " + json::describe(value));
  }
  if (const json::Value* index = value.find("index")) {
    const auto number = integer_of(*index);
    if (!number || *number < 0 || *number > std::numeric_limits<std::uint32_t>::max()) {
      return malformed("the index of a choice is " + json::describe(*index));
    }
    choice.index = static_cast<std::uint32_t>(*number);
  }
  PHALANX_TRY(choice.finish_reason, text_member(value, "finish_reason"));
  if (const json::Value* delta = value.find("delta")) {
    PHALANX_TRY(choice.text, text_member(*delta, "content"));
    choice.opens = delta->find("role") != nullptr && choice.text.empty();
  } else {
    PHALANX_TRY(choice.text, text_member(value, "text"));
  }
  return choice;
}

Result<std::uint64_t> count_member(const json::Value& usage, std::string_view key) {
  const json::Value* value = usage.find(key);
  const auto count = value == nullptr ? std::nullopt : integer_of(*value);
  if (!count || *count < 0) {
    return malformed("usage." + std::string(key) + " is no count");
  }
  return static_cast<std::uint64_t>(*count);
}

Result<Usage> parse_usage(const json::Value& value) {
  Usage usage;
  PHALANX_TRY(usage.prompt_tokens, count_member(value, "prompt_tokens"));
  PHALANX_TRY(usage.completion_tokens, count_member(value, "completion_tokens"));
  PHALANX_TRY(const std::uint64_t total, count_member(value, "total_tokens"));
  if (total != usage.prompt_tokens + usage.completion_tokens) {
    return malformed("usage.total_tokens is not the sum of its parts");
  }
  return usage;
}

std::string message_of(const json::Value& error) {
  const json::Value* message = error.find("message");
  const std::string* text = message == nullptr ? error.as_string() : message->as_string();
  return text == nullptr ? json::describe(error) : *text;
}

}  // namespace

Result<StreamEvent> parse_stream_event(std::string_view data) {
  auto parsed = json::parse(data);
  if (!parsed) {
    return malformed(parsed.error().message());
  }
  if (parsed->as_object() == nullptr) {
    return malformed("expected an object, came " + json::describe(*parsed));
  }
  StreamEvent event;
  const json::Value* error = parsed->find("error");
  if (error != nullptr && !error->is_null()) {
    event.error = message_of(*error);
    return event;
  }
  const json::Value* choices = parsed->find("choices");
  if (choices == nullptr || choices->as_array() == nullptr) {
    return malformed("it has neither choices nor an error");
  }
  for (const json::Value& value : *choices->as_array()) {
    PHALANX_TRY(auto choice, parse_choice(value));
    event.choices.push_back(std::move(choice));
  }
  const json::Value* usage = parsed->find("usage");
  if (usage != nullptr && !usage->is_null()) {
    PHALANX_TRY(event.usage, parse_usage(*usage));
  }
  return event;
}

std::string error_message_of(std::string_view body) {
  constexpr std::size_t kMaxShownBytes = 200;
  const auto parsed = json::parse(body);
  const json::Value* error = parsed ? parsed->find("error") : nullptr;
  return error == nullptr ? std::string(body.substr(0, kMaxShownBytes)) : message_of(*error);
}

Result<std::vector<std::string>> parse_model_list(std::string_view body) {
  PHALANX_TRY(const json::Value list, json::parse(body));
  const json::Value* data = list.find("data");
  if (data == nullptr || data->as_array() == nullptr) {
    return data_loss("expected a model list, came " + json::describe(list));
  }
  std::vector<std::string> ids;
  for (const json::Value& model : *data->as_array()) {
    PHALANX_TRY(auto id, text_member(model, "id"));
    if (id.empty()) {
      return data_loss("expected models with an id, came " + json::describe(model));
    }
    ids.push_back(std::move(id));
  }
  return ids;
}

}  // namespace phalanx::openai
