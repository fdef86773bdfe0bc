// SPDX-License-Identifier: Apache-2.0
#include "conversation.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "phalanx/json/writer.h"

namespace phalanx::openai {
namespace {

// Which roles there are is up to the template; those that are no words of the protocol are text of
// the client to it.
constexpr std::size_t kMaxRoleBytes = 64;

// Carried into the template as they are, where they have this type.
constexpr std::array<std::string_view, 4> kTextMembers = {
    "name", "tool_call_id", "reasoning_content", "reasoning"};

constexpr std::array<std::string_view, 3> kMembersReadElsewhere = {"role", "content", "prefix"};

// Clients that append an answer to their history send these back, mostly with nothing in them.
constexpr std::array<std::string_view, 4> kMembersOfAnswers = {
    "refusal", "annotations", "audio", "function_call"};

// Arguments become a part of the conversation, six levels down.
constexpr std::size_t kMaxArgumentsDepth = json::Limits{}.depth_max - 6;

template <typename List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool is_role(std::string_view text) {
  return !text.empty() && text.size() <= kMaxRoleBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '.' || c == '-';
         });
}

// Members that nobody reads.
void note_others(const Field& object,
                 std::initializer_list<std::string_view> known,
                 std::vector<std::string>* ignored) {
  for (const auto& [key, value] : *object.value.as_object()) {
    if (!value.is_null() && !contains(known, key)) {
      note_ignored(object.name + "." + key, ignored);
    }
  }
}

// The member that has the text of a part; nullptr: it is no text. Some clients send parts as the
// Responses API calls them.
const char* text_member_of(const std::string* type) {
  if (type == nullptr) {
    return nullptr;
  }
  if (*type == "refusal") {
    return "refusal";
  }
  return *type == "text" || *type == "input_text" || *type == "output_text" ? "text" : nullptr;
}

void write_text_part(const std::string& text, json::Writer& json) {
  json.begin_object().key("type").text("text").key("text").text(text).end_object();
}

// A text part as templates know it.
Refusal write_part(const Field& part, std::vector<std::string>* ignored, json::Writer& json) {
  if (const std::string* const text = part.value.as_string()) {
    write_text_part(*text, json);
    return std::nullopt;
  }
  const json::Value* type = part.value.find("type");
  const json::Value absent;
  if (part.value.as_object() == nullptr) {
    return wrong(part, "an object or a string");
  }
  const char* const member = text_member_of(type == nullptr ? nullptr : type->as_string());
  if (member == nullptr) {
    return wrong({part.name + ".type", type == nullptr ? absent : *type},
                 "\"text\", as the model takes text only");
  }
  const json::Value* content = part.value.find(member);
  if (content == nullptr || content->as_string() == nullptr) {
    return wrong({part.name + "." + member, content == nullptr ? absent : *content}, "a string");
  }
  note_others(part, {"type", member}, ignored);
  write_text_part(*content->as_string(), json);
  return std::nullopt;
}

Refusal write_content(const Field& field,
                      bool may_be_absent,
                      std::vector<std::string>* ignored,
                      json::Writer& json) {
  if (field.value.is_null() && may_be_absent) {
    json.text("");
    return std::nullopt;
  }
  if (field.value.as_string() != nullptr) {
    json.value(field.value);
    return std::nullopt;
  }
  const auto* parts = field.value.as_array();
  if (parts == nullptr) {
    return wrong(field, "a string or a list of text parts");
  }
  json.begin_array();
  for (std::size_t i = 0; i < parts->size(); ++i) {
    if (auto refusal =
            write_part({field.name + "[" + std::to_string(i) + "]", (*parts)[i]}, ignored, json)) {
      return refusal;
    }
  }
  json.end_array();
  return std::nullopt;
}

// Arguments come as the text of a JSON object; templates take the object. A model may have written
// something else, which stays what it said.
Refusal write_arguments(const Field& field, json::Writer& json) {
  const std::string* const text = field.value.as_string();
  if (field.value.is_null() || (text != nullptr && text->empty())) {
    json.begin_object().end_object();
    return std::nullopt;
  }
  if (field.value.as_object() != nullptr) {
    json.value(field.value);
    return std::nullopt;
  }
  if (text == nullptr) {
    return wrong(field, "a JSON object, written as a string");
  }
  const Result<json::Value> parsed =
      json::parse(*text, {.depth_max = kMaxArgumentsDepth, .values_max = kMaxRequestValues});
  parsed && parsed->as_object() != nullptr ? json.value(*parsed) : json.text(*text);
  return std::nullopt;
}

Refusal write_function(const Field& function,
                       std::vector<std::string>* ignored,
                       json::Writer& json) {
  const json::Value absent;
  if (function.value.as_object() == nullptr) {
    return wrong(function, "an object with name and arguments");
  }
  const json::Value* const name = function.value.find("name");
  if (name == nullptr || name->as_string() == nullptr) {
    return wrong({function.name + ".name", name == nullptr ? absent : *name}, "a string");
  }
  note_others(function, {"name", "arguments"}, ignored);
  json.begin_object().key("name").value(*name).key("arguments");
  const json::Value* const arguments = function.value.find("arguments");
  if (auto refusal = write_arguments(
          {function.name + ".arguments", arguments == nullptr ? absent : *arguments}, json)) {
    return refusal;
  }
  json.end_object();
  return std::nullopt;
}

Refusal write_tool_calls(const Field& field,
                         std::vector<std::string>* ignored,
                         json::Writer& json) {
  const json::Value absent;
  json.begin_array();
  for (std::size_t i = 0; i < field.value.as_array()->size(); ++i) {
    const Field call{field.name + "[" + std::to_string(i) + "]", (*field.value.as_array())[i]};
    if (call.value.as_object() == nullptr) {
      return wrong(call, "an object with a function");
    }
    note_others(call, {"id", "type", "function", "index"}, ignored);  // as a stream counts them
    json.begin_object();
    for (const char* member : {"id", "type"}) {
      const json::Value* const text = call.value.find(member);
      if (text == nullptr || text->is_null()) {
        continue;
      }
      if (text->as_string() == nullptr) {
        return wrong({call.name + "." + member, *text}, "a string");
      }
      json.key(member).value(*text);
    }
    json.key("function");
    const json::Value* const function = call.value.find("function");
    if (auto refusal = write_function(
            {call.name + ".function", function == nullptr ? absent : *function}, ignored, json)) {
      return refusal;
    }
    json.end_object();
  }
  json.end_array();
  return std::nullopt;
}

// Templates read the one name or the other.
void write_thoughts_twice(const json::Value& message, json::Writer& json) {
  const auto absent = [&](const char* name) {
    const json::Value* const value = message.find(name);
    return value == nullptr || value->is_null();
  };
  if (absent("reasoning") != absent("reasoning_content")) {
    const char* const given = absent("reasoning") ? "reasoning_content" : "reasoning";
    const char* const other = absent("reasoning") ? "reasoning" : "reasoning_content";
    json.key(other).value(*message.find(given));
  }
}

Refusal write_further_members(const Field& message,
                              std::vector<std::string>* ignored,
                              json::Writer& json) {
  for (const auto& [key, value] : *message.value.as_object()) {
    if (value.is_null() || contains(kMembersReadElsewhere, key)) {
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
      if (value.as_array()->empty()) {
        continue;  // to a template that looks for the name alone, calls would have been made
      }
      json.key(key);
      if (auto refusal = write_tool_calls(field, ignored, json)) {
        return refusal;
      }
    } else if (!contains(kMembersOfAnswers, key) || !is_empty(value)) {
      note_ignored(field.name, ignored);
    }
  }
  return std::nullopt;
}

Refusal write_message(const Field& message, std::vector<std::string>* ignored, json::Writer& json) {
  const json::Value absent;
  if (message.value.as_object() == nullptr) {
    return wrong(message, "an object with role and content");
  }
  const json::Value* role_value = message.value.find("role");
  const std::string* role = role_value == nullptr ? nullptr : role_value->as_string();
  if (role == nullptr || !is_role(*role)) {
    return wrong({message.name + ".role", role_value == nullptr ? absent : *role_value},
                 "a role that the chat template knows, of 1 to 64 letters, digits, \"_\", \".\" "
                 "and \"-\", as in \"user\"");
  }
  json.begin_object().key("role").text(*role).key("content");
  const json::Value* content = message.value.find("content");
  if (auto refusal =
          write_content({message.name + ".content", content == nullptr ? absent : *content},
                        *role == "assistant" || *role == "tool",
                        ignored,
                        json)) {
    return refusal;
  }
  if (auto refusal = write_further_members(message, ignored, json)) {
    return refusal;
  }
  write_thoughts_twice(message.value, json);
  json.end_object();
  return std::nullopt;
}

// Whether a message that has been written is to be continued, as DeepSeek and Mistral ask for it.
Refusal read_prefix(const Field& message, bool is_last, bool* out) {
  const json::Value* const prefix = message.value.find("prefix");
  if (prefix == nullptr || prefix->is_null()) {
    return std::nullopt;
  }
  const Field field{message.name + ".prefix", *prefix};
  if (auto refusal = read_bool(field, out)) {
    return refusal;
  }
  if (*out && !(is_last && *message.value.find("role")->as_string() == "assistant")) {
    return wrong(field, "false, as only a last message of the assistant can be continued");
  }
  return std::nullopt;
}

}  // namespace

Refusal read_messages(const Field& field,
                      std::size_t messages_max,
                      std::vector<std::string>* ignored,
                      TemplateInput* out) {
  const auto* messages = field.value.as_array();
  if (messages == nullptr || messages->empty()) {
    return wrong(field, "a list of at least one message");
  }
  if (messages->size() > messages_max) {
    return invalid_field(field.name,
                         field.name + ": expected at most " + std::to_string(messages_max) +
                             " messages, came " + std::to_string(messages->size()));
  }
  json::Writer json;
  json.begin_array();
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const Field message{field.name + "[" + std::to_string(i) + "]", (*messages)[i]};
    if (auto refusal = write_message(message, ignored, json)) {
      return refusal;
    }
    const bool is_last = i + 1 == messages->size();
    if (auto refusal = read_prefix(message, is_last, &out->continue_final_message)) {
      return refusal;
    }
  }
  json.end_array();
  out->messages_json = json.take();
  out->message_count = messages->size();
  return std::nullopt;
}

}  // namespace phalanx::openai
