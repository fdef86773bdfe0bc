// SPDX-License-Identifier: Apache-2.0
#include "conversation.h"

#include <algorithm>
#include <array>

#include "json_writer.h"

namespace phalanx::openai {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {
    "system", "developer", "user", "assistant", "tool"};

// Carried into the template as they are, where they have this type.
constexpr std::array<std::string_view, 4> kTextMembers = {
    "name", "tool_call_id", "reasoning_content", "reasoning"};

constexpr std::array<std::string_view, 9> kReservedVariables = {"messages",
                                                                "tools",
                                                                "documents",
                                                                "add_generation_prompt",
                                                                "continue_final_message",
                                                                "chat_template",
                                                                "tokenize",
                                                                "bos_token",
                                                                "eos_token"};

template <typename List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

Refusal append_part(const Field& part, std::string* text) {
  const JsonValue* type = part.value.find("type");
  const JsonValue absent;
  if (part.value.as_object() == nullptr) {
    return wrong(part, "an object");
  }
  const std::string* kind = type == nullptr ? nullptr : type->as_string();
  if (kind == nullptr || (*kind != "text" && *kind != "refusal")) {
    return wrong({part.name + ".type", type == nullptr ? absent : *type},
                 "\"text\", as the model takes text only");
  }
  const JsonValue* content = part.value.find(*kind);
  if (content == nullptr || content->as_string() == nullptr) {
    return wrong({part.name + "." + *kind, content == nullptr ? absent : *content}, "a string");
  }
  text->append(*content->as_string());
  return std::nullopt;
}

// Parts are joined by line ends, as other servers do for templates that take text.
Refusal read_content(const Field& field, bool may_be_absent, std::string* text) {
  if (field.value.is_null() && may_be_absent) {
    return std::nullopt;
  }
  if (const std::string* string = field.value.as_string()) {
    *text = *string;
    return std::nullopt;
  }
  const auto* parts = field.value.as_array();
  if (parts == nullptr) {
    return wrong(field, "a string or a list of text parts");
  }
  for (std::size_t i = 0; i < parts->size(); ++i) {
    if (i > 0) {
      text->push_back('\n');
    }
    if (auto refusal =
            append_part({field.name + "[" + std::to_string(i) + "]", (*parts)[i]}, text)) {
      return refusal;
    }
  }
  return std::nullopt;
}

Refusal write_further_members(const Field& message,
                              std::vector<std::string>* ignored,
                              JsonWriter& json) {
  for (const auto& [key, value] : *message.value.as_object()) {
    if (value.is_null() || key == "role" || key == "content") {
      continue;
    }
    const Field field{message.name + "." + key, value};
    if (contains(kTextMembers, key)) {
      if (value.as_string() == nullptr) {
        return wrong(field, "a string");
      }
      json.key(key).value(value);
    } else if (key == "tool_calls") {
      if (value.as_array() == nullptr) {
        return wrong(field, "a list");
      }
      json.key(key).value(value);
    } else {
      note_ignored(field.name, ignored);
    }
  }
  return std::nullopt;
}

Refusal write_message(const Field& message, std::vector<std::string>* ignored, JsonWriter& json) {
  const JsonValue absent;
  if (message.value.as_object() == nullptr) {
    return wrong(message, "an object with role and content");
  }
  const JsonValue* role_value = message.value.find("role");
  const std::string* role = role_value == nullptr ? nullptr : role_value->as_string();
  if (role == nullptr || !contains(kRoles, *role)) {
    return wrong({message.name + ".role", role_value == nullptr ? absent : *role_value},
                 "\"system\", \"developer\", \"user\", \"assistant\" or \"tool\"");
  }
  const JsonValue* content_value = message.value.find("content");
  std::string content;
  if (auto refusal = read_content(
          {message.name + ".content", content_value == nullptr ? absent : *content_value},
          *role == "assistant",
          &content)) {
    return refusal;
  }
  // Templates know the role by its older name and would drop the message silently.
  json.begin_object().key("role").text(*role == "developer" ? "system" : *role);
  json.key("content").text(content);
  if (auto refusal = write_further_members(message, ignored, json)) {
    return refusal;
  }
  json.end_object();
  return std::nullopt;
}

}  // namespace

Refusal read_messages(const Field& field,
                      std::size_t messages_max,
                      std::vector<std::string>* ignored,
                      Conversation* out) {
  const auto* messages = field.value.as_array();
  if (messages == nullptr || messages->empty()) {
    return wrong(field, "a list of at least one message");
  }
  if (messages->size() > messages_max) {
    return invalid_field(field.name,
                         field.name + ": expected at most " + std::to_string(messages_max) +
                             " messages, came " + std::to_string(messages->size()));
  }
  JsonWriter json;
  json.begin_array();
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const Field message{field.name + "[" + std::to_string(i) + "]", (*messages)[i]};
    if (auto refusal = write_message(message, ignored, json)) {
      return refusal;
    }
  }
  json.end_array();
  out->json = json.take();
  out->count = messages->size();
  return std::nullopt;
}

Refusal read_template_variables(const Field& field, std::string* out) {
  const auto* object = field.value.as_object();
  if (object == nullptr) {
    return wrong(field, "an object");
  }
  for (const auto& [key, value] : *object) {
    if (contains(kReservedVariables, key)) {
      const std::string name = field.name + "." + key;
      return invalid_field(name,
                           name + ": is set by the request itself, not by a template variable");
    }
  }
  JsonWriter json;
  json.value(field.value);
  *out = json.take();
  return std::nullopt;
}

}  // namespace phalanx::openai
