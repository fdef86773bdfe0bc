// SPDX-License-Identifier: Apache-2.0
#include "conversation_values.h"

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/find_text.h"
#include "phalanx/jinja/json_value.h"

namespace phalanx::tokenizer {
namespace {

using jinja::Dict;
using jinja::MarkedText;
using jinja::Value;

constexpr std::string_view kDeveloper = "developer";

const MarkedText* text_member(const Value& object, std::string_view name) {
  const Dict* const dict = object.as_dict();
  const Value* const member = dict == nullptr ? nullptr : dict->find(name);
  return member == nullptr ? nullptr : member->as_text();
}

Result<Value> with_member(const Value& object, const char* name, Value member) {
  Dict changed = *object.as_dict();
  changed.set(std::make_shared<const MarkedText>(MarkedText::literal(name)), std::move(member));
  return Value::dict(std::move(changed));
}

// The texts of the parts; nothing if there is anything else among them.
std::optional<Value> joined(const jinja::List& parts) {
  MarkedText whole;
  for (std::size_t i = 0; i < parts.items.size(); ++i) {
    const MarkedText* const text = text_member(parts.items[i], "text");
    if (text == nullptr) {
      return std::nullopt;
    }
    if (i > 0) {
      whole.append_user("\n");
    }
    whole.append(*text);
  }
  return Value::text(std::move(whole));
}

// No text can hold it but by chance of 1 in 2^128: drawn anew each time, and of characters that
// neither a change of case nor the escapes of JSON touch.
std::string drawn_mark() {
  std::random_device source;
  std::string mark = "-";
  for (int i = 0; i < 4; ++i) {
    mark += std::to_string(std::uint32_t{source()}) + "-";
  }
  return mark;
}

MarkedText marked(const MarkedText& text, const std::string& mark) {
  MarkedText result = text;
  // The space tells whether the template strips the message.
  result.append_literal(mark + " ");
  return result;
}

bool is_role(std::string_view text) {
  constexpr std::array<std::string_view, 5> kRoles = {
      "system", kDeveloper, "user", "assistant", "tool"};
  return std::find(kRoles.begin(), kRoles.end(), text) != kRoles.end();
}

// The content as the template takes it; nothing if it is so already, or cannot be.
Result<std::optional<Value>> in_form(const Value& content, Contents contents) {
  if (contents == Contents::kTexts && content.as_list() != nullptr) {
    return joined(*content.as_list());
  }
  if (contents != Contents::kLists || content.as_text() == nullptr) {
    return std::optional<Value>();
  }
  PHALANX_TRY(Value part, Value::dict({}));
  PHALANX_TRY(part, with_member(part, "type", Value::literal("text")));
  PHALANX_TRY(part, with_member(part, "text", content));
  PHALANX_TRY(Value list, Value::list({std::move(part)}));
  return std::optional(std::move(list));
}

// A call with its arguments as text.
Result<Value> with_text_arguments(const Value& call) {
  const Value* const function =
      call.as_dict() == nullptr ? nullptr : call.as_dict()->find("function");
  const Value* const arguments = function == nullptr || function->as_dict() == nullptr
                                     ? nullptr
                                     : function->as_dict()->find("arguments");
  if (arguments == nullptr || arguments->as_dict() == nullptr) {
    return call;
  }
  PHALANX_TRY(MarkedText text, jinja::to_json(*arguments, {}, [](std::size_t) { return ok(); }));
  PHALANX_TRY(Value changed, with_member(*function, "arguments", Value::text(std::move(text))));
  return with_member(call, "function", std::move(changed));
}

// A message as the template takes one that calls tools, if it does.
Result<Value> calls_in_form(Value message, const MessageForm& form) {
  const Value* const calls = message.as_dict()->find("tool_calls");
  if (calls == nullptr || calls->as_list() == nullptr) {
    return message;
  }
  if (form.calls_are_texts) {
    std::vector<Value> items = calls->as_list()->items;
    for (Value& call : items) {
      PHALANX_TRY(call, with_text_arguments(call));
    }
    PHALANX_TRY(Value list, Value::list(std::move(items)));
    PHALANX_TRY(message, with_member(message, "tool_calls", std::move(list)));
  }
  const MarkedText* const content = text_member(message, "content");
  if (form.knows_none && content != nullptr && content->size() == 0) {
    return with_member(message, "content", Value());
  }
  return message;
}

// The list with its last element that has a text marked; nothing if there is none.
Result<std::optional<Value>> mark_last_part(const jinja::List& parts,
                                            const std::string& mark,
                                            std::string& text) {
  for (std::size_t i = parts.items.size(); i-- > 0;) {
    if (const MarkedText* found = text_member(parts.items[i], "text")) {
      text = found->text();
      std::vector<Value> changed = parts.items;
      PHALANX_TRY(changed[i],
                  with_member(parts.items[i], "text", Value::text(marked(*found, mark))));
      PHALANX_TRY(Value list, Value::list(std::move(changed)));
      return std::optional(std::move(list));
    }
  }
  return std::optional<Value>();
}

}  // namespace

Result<Value> messages_of(const RenderRequest& request, MessageForm form) {
  PHALANX_TRY(Value messages, jinja::parse_json_value(request.messages_json, "messages"));
  if (messages.as_list() == nullptr) {
    return invalid_argument("messages: expected an array");
  }
  std::vector<Value> items = messages.as_list()->items;
  for (Value& item : items) {
    if (item.as_dict() == nullptr) {
      return invalid_argument("messages: expected objects");
    }
    const MarkedText* const role = text_member(item, "role");
    if (role != nullptr && is_role(role->text())) {
      const bool is_renamed = !form.knows_developers && role->text() == kDeveloper;
      PHALANX_TRY(item,
                  with_member(item, "role", Value::literal(is_renamed ? "system" : role->text())));
    }
    PHALANX_TRY(item, calls_in_form(std::move(item), form));
    const Value* const content = item.as_dict()->find("content");
    PHALANX_TRY(std::optional<Value> changed,
                in_form(content == nullptr ? Value() : *content, form.contents));
    if (changed) {
      PHALANX_TRY(item, with_member(item, "content", *std::move(changed)));
    }
  }
  return Value::list(std::move(items));
}

Result<Value> optional_list_of(std::string_view json, std::string_view what) {
  if (json.empty()) {
    return Value();
  }
  PHALANX_TRY(Value value, jinja::parse_json_value(json, what));
  if (value.as_list() == nullptr && !value.is_none()) {
    return invalid_argument(std::string(what) + ": expected an array");
  }
  return value;
}

Result<FinalMessage> FinalMessage::mark(Value& messages) {
  const auto& items = messages.as_list()->items;
  const Value* const content = items.empty() ? nullptr : items.back().as_dict()->find("content");
  std::optional<Value> changed;
  std::string mark = drawn_mark();
  std::string text;
  if (content != nullptr && content->as_text() != nullptr) {
    text = content->as_text()->text();
    changed = Value::text(marked(*content->as_text(), mark));
  } else if (content != nullptr && content->as_list() != nullptr) {
    PHALANX_TRY(changed, mark_last_part(*content->as_list(), mark, text));
  }
  if (!changed.has_value()) {
    return invalid_argument(
        "continue_final_message: expected a final message with text, found none");
  }
  std::vector<Value> replaced = items;
  PHALANX_TRY(replaced.back(), with_member(items.back(), "content", *std::move(changed)));
  PHALANX_TRY(messages, Value::list(std::move(replaced)));
  const MarkedText stripped = jinja::strip(MarkedText::literal(text), nullptr, jinja::Side::kBoth);
  return FinalMessage(std::move(mark), stripped.text());
}

Result<MarkedText> FinalMessage::cut(const MarkedText& rendered) const {
  const std::size_t at = rendered.view().rfind(mark_);
  if (at == std::string_view::npos || find_text(rendered.view(), text_) == std::string_view::npos) {
    return invalid_argument(
        "continue_final_message: the chat template does not write the final message as it is, so "
        "there is no place to continue");
  }
  MarkedText kept = rendered.slice(0, at);
  const bool keeps_space = rendered.view().substr(at + mark_.size()).starts_with(' ');
  return keeps_space ? kept : jinja::strip(kept, nullptr, jinja::Side::kRight);
}

}  // namespace phalanx::tokenizer
