// SPDX-License-Identifier: Apache-2.0
#include "template_input.h"

#include <algorithm>
#include <array>

#include "phalanx/json/writer.h"

#include "conversation.h"

namespace phalanx::openai {
namespace {

constexpr std::array<std::string_view, 9> kReservedVariables = {"messages",
                                                                "tools",
                                                                "documents",
                                                                "add_generation_prompt",
                                                                "continue_final_message",
                                                                "chat_template",
                                                                "tokenize",
                                                                "bos_token",
                                                                "eos_token"};

constexpr std::string_view kEffort = "reasoning_effort";
constexpr std::string_view kThinking = "enable_thinking";
constexpr std::string_view kThinkingObject = "thinking";  // as Anthropic and others have it

std::string json_of(const json::Value& value) {
  json::Writer json;
  json.value(value);
  return json.take();
}

// chat_template_kwargs: an object that may not set what the request itself says.
Refusal read_variables(const Field& field, std::string* out) {
  const auto* object = field.value.as_object();
  if (object == nullptr) {
    return wrong(field, "an object");
  }
  for (const auto& [key, value] : *object) {
    if (std::find(kReservedVariables.begin(), kReservedVariables.end(), key) !=
        kReservedVariables.end()) {
      const std::string name = field.name + "." + key;
      return invalid_field(name,
                           name + ": is set by the request itself, not by a template variable");
    }
  }
  *out = json_of(field.value);
  return std::nullopt;
}

// A list of objects, each as `write` finds it good; an empty one counts as none.
template <typename Write>
Refusal read_objects(const Field& field,
                     std::size_t count_max,
                     const Write& write,
                     std::string* out) {
  const auto* list = field.value.as_array();
  if (list == nullptr) {
    return wrong(field, "a list of objects");
  }
  if (list->size() > count_max) {
    return invalid_field(field.name,
                         field.name + ": expected at most " + std::to_string(count_max) +
                             " objects, came " + std::to_string(list->size()));
  }
  json::Writer json;
  json.begin_array();
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Field element{field.name + "[" + std::to_string(i) + "]", (*list)[i]};
    if (element.value.as_object() == nullptr) {
      return wrong(element, "an object");
    }
    if (auto refusal = write(element, json)) {
      return refusal;
    }
  }
  json.end_array();
  *out = list->empty() ? std::string() : json.take();
  return std::nullopt;
}

// One without a type is a function, as there are no others, and templates may ask for it.
Refusal write_tool(const Field& tool, json::Writer& json) {
  const json::Value absent;
  const json::Value* const type = tool.value.find("type");
  const bool has_type = type != nullptr && !type->is_null();
  if (has_type && (type->as_string() == nullptr || *type->as_string() != "function")) {
    return wrong({tool.name + ".type", *type}, "\"function\"");
  }
  const json::Value* const function = tool.value.find("function");
  if (function == nullptr || function->as_object() == nullptr) {
    return wrong({tool.name + ".function", function == nullptr ? absent : *function}, "an object");
  }
  const json::Value* const name = function->find("name");
  if (name == nullptr || name->as_string() == nullptr) {
    return wrong({tool.name + ".function.name", name == nullptr ? absent : *name}, "a string");
  }
  if (has_type) {
    json.value(tool.value);
    return std::nullopt;
  }
  json.begin_object().key("type").text("function");
  for (const auto& [key, value] : *tool.value.as_object()) {
    if (key != "type") {
      json.key(key).value(value);
    }
  }
  json.end_object();
  return std::nullopt;
}

Refusal write_document(const Field& document, json::Writer& json) {
  json.value(document.value);
  return std::nullopt;
}

}  // namespace

bool TemplateInputReader::read(const Field& field, Refusal* refusal) {
  if (field.name == "messages") {
    *refusal = read_messages(field, bounds_.messages_max, ignored_, &input_);
  } else if (field.name == "tools") {
    *refusal = read_objects(field, bounds_.tools_max, write_tool, &input_.tools_json);
  } else if (field.name == "tool_choice") {
    *refusal = read_tool_choice(field);
  } else if (field.name == "documents") {
    *refusal = read_objects(field, bounds_.documents_max, write_document, &input_.documents_json);
  } else if (field.name == "chat_template_kwargs") {
    *refusal = read_variables(field, &input_.variables_json);
    variables_have_effort_ = field.value.find(kEffort) != nullptr;
    variables_have_thinking_ = field.value.find(kThinking) != nullptr;
  } else if (field.name == kEffort) {
    *refusal = read_effort(field);
  } else if (field.name == kThinking) {
    *refusal = read_bool(field, &enable_thinking_.emplace());
  } else if (field.name == kThinkingObject) {
    *refusal = read_thinking(field);
  } else if (field.name == "chat_template") {
    *refusal = unsupported(field.name,
                           "the model's own template is used, or the one that the server was "
                           "started with");
  } else if (field.name == "add_generation_prompt") {
    *refusal = read_bool(field, &add_generation_prompt_.emplace());
  } else if (field.name == "continue_final_message") {
    *refusal = read_bool(field, &continue_final_message_.emplace());
  } else {
    return false;
  }
  return true;
}

Refusal TemplateInputReader::read_tool_choice(const Field& field) {
  const std::string* const choice = field.value.as_string();
  if (choice != nullptr && (*choice == "none" || *choice == "auto")) {
    input_.calls_no_tool = *choice == "none";  // else that is left to the model
    return std::nullopt;
  }
  if (field.value.as_object() == nullptr && (choice == nullptr || *choice != "required")) {
    return wrong(field, "\"none\", \"auto\", \"required\" or an object that names a tool");
  }
  return unsupported(field.name,
                     "a call cannot be forced; send \"auto\" or \"none\", and the model decides");
}

Refusal TemplateInputReader::read_effort(const Field& field) {
  constexpr std::size_t kMaxEffortBytes = 64;
  return read_text(field, &effort_.emplace(), kMaxEffortBytes);
}

// {"type": "enabled"} or {"type": "disabled"}: all that a template can be told of it.
Refusal TemplateInputReader::read_thinking(const Field& field) {
  const auto* const object = field.value.as_object();
  if (is_empty(field.value)) {
    return std::nullopt;
  }
  if (object == nullptr) {
    return wrong(field, "an object with a type of \"enabled\" or \"disabled\"");
  }
  const json::Value absent;
  const json::Value* const type = field.value.find("type");
  const std::string* const text = type == nullptr ? nullptr : type->as_string();
  if (text == nullptr || (*text != "enabled" && *text != "disabled")) {
    return wrong({field.name + ".type", type == nullptr ? absent : *type},
                 "\"enabled\" or \"disabled\"");
  }
  for (const auto& [key, value] : *object) {
    if (key != "type" && !value.is_null()) {
      return unsupported(field.name + "." + key, "thinking is on or off; send its type alone");
    }
  }
  thinking_ = *text == "enabled";
  return std::nullopt;
}

// A template that knows efforts finds it among its variables, where chat_template_kwargs may have
// named another. Many know only whether to think at all, which the effort says as well where the
// request does not.
void TemplateInputReader::add_variables() {
  std::string& variables = input_.variables_json;
  const auto add = [&](std::string_view name, const std::string& value) {
    const bool has_others = variables.size() > std::string_view("{}").size();
    variables =
        "{" + json::quote(name) + ":" + value + (has_others ? "," + variables.substr(1) : "}");
  };
  std::optional<bool> thinks = enable_thinking_ ? enable_thinking_ : thinking_;
  if (!thinks && effort_) {
    thinks = *effort_ != "none";
  }
  if (thinks && !variables_have_thinking_) {
    add(kThinking, *thinks ? "true" : "false");
  }
  if (effort_ && !variables_have_effort_) {
    add(kEffort, json::quote(*effort_));
  }
}

// The final message may ask for it itself, before or behind the field.
Refusal TemplateInputReader::finish_final_message() {
  const bool has_prefix = input_.continue_final_message;
  const std::string prefix = "messages[" + std::to_string(input_.message_count - 1) + "].prefix";
  if (has_prefix && !continue_final_message_.value_or(true)) {
    return invalid_field("continue_final_message",
                         "continue_final_message: expected what " + prefix + " says, came false");
  }
  input_.continue_final_message = has_prefix || continue_final_message_.value_or(false);
  if (input_.continue_final_message && add_generation_prompt_.value_or(false)) {
    const std::string name = continue_final_message_ ? "continue_final_message" : prefix;
    return invalid_field(name,
                         name +
                             ": expected no add_generation_prompt with it: the final message "
                             "is either continued or followed by a new one");
  }
  input_.add_generation_prompt = add_generation_prompt_.value_or(!input_.continue_final_message);
  return std::nullopt;
}

Refusal TemplateInputReader::finish() {
  if (enable_thinking_ && thinking_ && *enable_thinking_ != *thinking_) {
    return invalid_field(std::string(kThinkingObject),
                         "thinking: expected what enable_thinking says, came the opposite; send "
                         "one of them");
  }
  add_variables();
  return finish_final_message();
}

}  // namespace phalanx::openai
