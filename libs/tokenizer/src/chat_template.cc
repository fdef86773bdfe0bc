// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tokenizer/chat_template.h"

#include <array>
#include <utility>

#include "phalanx/tokenizer/tokenizer.h"

#include "jinja/interpreter.h"
#include "jinja/json_value.h"
#include "jinja/parser.h"
#include "utf8.h"

namespace phalanx::tokenizer {
namespace {

constexpr std::array<std::string_view, 3> kOwnVariables{
    "messages", "tools", "add_generation_prompt"};

std::vector<TextSegment> segments_of(const jinja::MarkedText& text) {
  std::vector<TextSegment> segments;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.user_data().run_end(at, text.size());
    segments.push_back({text.text().substr(at, end - at), text.user_data().overlaps({at, end})});
    at = end;
  }
  return segments;
}

Status set_messages(const RenderRequest& request, jinja::Scope& scope) {
  PHALANX_TRY(jinja::Value messages, jinja::parse_json_value(request.messages_json, "messages"));
  if (messages.as_list() == nullptr) {
    return invalid_argument("messages: expected an array");
  }
  for (const jinja::Value& message : messages.as_list()->items) {
    if (message.as_dict() == nullptr) {
      return invalid_argument("messages: expected objects");
    }
  }
  scope.set("messages", std::move(messages));
  jinja::Value tools;
  if (!request.tools_json.empty()) {
    PHALANX_TRY(tools, jinja::parse_json_value(request.tools_json, "tools"));
    if (tools.as_list() == nullptr && !tools.is_none()) {
      return invalid_argument("tools: expected an array");
    }
  }
  scope.set("tools", std::move(tools));
  scope.set("documents", jinja::Value());
  scope.set("add_generation_prompt", jinja::Value(request.add_generation_prompt));
  return ok();
}

// `variables` owns the names that the scope refers to.
Status set_variables(const jinja::Value& variables, jinja::Scope& scope) {
  if (variables.is_none()) {
    return ok();
  }
  if (variables.as_dict() == nullptr) {
    return invalid_argument("template variables: expected an object");
  }
  for (const auto& [name, value] : variables.as_dict()->entries()) {
    for (const std::string_view own : kOwnVariables) {
      if (name->view() == own) {
        return invalid_argument("template variables: \"" + std::string(own) +
                                "\" is set by the request itself");
      }
    }
    scope.set(name->view(), value);
  }
  return ok();
}

}  // namespace

struct ChatTemplate::Program {
  jinja::Body body;
  std::vector<std::pair<std::string, std::string>> constants;
  TemplateLimits limits;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::compile(
    std::string_view source,
    std::vector<std::pair<std::string, std::string>> constants,
    TemplateLimits limits) {
  if (source.size() > kMaxTemplateBytes) {
    return invalid_argument("chat template: expected at most " + std::to_string(kMaxTemplateBytes) +
                            " bytes, found " + std::to_string(source.size()));
  }
  if (!is_valid_utf8(source)) {
    return invalid_argument("chat template: expected UTF-8");
  }
  auto program = std::make_unique<Program>();
  Result<jinja::Body> body = jinja::parse_template(source);
  if (!body) {
    return std::move(body).error().with("chat template");
  }
  program->body = *std::move(body);
  program->constants = std::move(constants);
  program->limits = limits;
  return ChatTemplate(std::move(program));
}

Result<std::vector<TextSegment>> ChatTemplate::render(const RenderRequest& request) const {
  jinja::Value variables;
  if (!request.variables_json.empty()) {
    PHALANX_TRY(variables, jinja::parse_json_value(request.variables_json, "template variables"));
  }
  jinja::Scope globals(nullptr);
  for (const auto& [name, text] : program_->constants) {
    globals.set(name, jinja::Value::literal(text));
  }
  PHALANX_RETURN_IF_ERROR(set_messages(request, globals));
  PHALANX_RETURN_IF_ERROR(set_variables(variables, globals));
  // What the template sets at its top hides the variables of the request, and not the other way.
  jinja::Scope top(&globals);
  jinja::Interpreter interpreter(program_->limits,
                                 request.now.value_or(std::chrono::system_clock::now()));
  PHALANX_TRY(const jinja::MarkedText text, interpreter.run(program_->body, top));
  return segments_of(text);
}

Result<ChatTemplate> compile_chat_template(const Tokenizer& tokenizer, TemplateLimits limits) {
  if (tokenizer.chat_template().empty()) {
    return not_found("the model has no chat template");
  }
  std::vector<std::pair<std::string, std::string>> constants;
  for (const NamedToken& token : tokenizer.named_tokens()) {
    constants.emplace_back(token.name, token.text);
  }
  return ChatTemplate::compile(tokenizer.chat_template(), std::move(constants), limits);
}

}  // namespace phalanx::tokenizer
