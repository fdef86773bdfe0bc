// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tokenizer/chat_template.h"

#include <array>
#include <utility>

#include "phalanx/tokenizer/tokenizer.h"

#include "conversation_values.h"
#include "jinja/interpreter.h"
#include "jinja/json_value.h"
#include "jinja/parser.h"
#include "jinja/survey.h"
#include "utf8.h"

namespace phalanx::tokenizer {
namespace {

constexpr std::array<std::string_view, 4> kOwnVariables{
    "messages", "tools", "documents", "add_generation_prompt"};

std::vector<TextSegment> segments_of(const jinja::MarkedText& text) {
  std::vector<TextSegment> segments;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.user_data().run_end(at, text.size());
    segments.push_back({text.text().substr(at, end - at), text.user_data().overlaps({at, end})});
    at = end;
  }
  return segments;
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
  jinja::Survey survey;
  jinja::UnsetNames unset_names;
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
  program->survey = jinja::survey(program->body);
  program->unset_names = jinja::UnsetNames(program->body);
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
  if (request.continue_final_message && request.add_generation_prompt) {
    return invalid_argument(
        "continue_final_message: expected no add_generation_prompt with it: the final message is "
        "either continued or followed by a new one");
  }
  PHALANX_TRY(jinja::Value messages, messages_of(request, program_->survey.iterates_content));
  std::optional<FinalMessage> final_message;
  if (request.continue_final_message) {
    PHALANX_TRY(final_message, FinalMessage::mark(messages));
  }
  PHALANX_TRY(jinja::Value tools, optional_list_of(request.tools_json, "tools"));
  PHALANX_TRY(jinja::Value documents, optional_list_of(request.documents_json, "documents"));
  globals.set("messages", std::move(messages));
  globals.set("tools", std::move(tools));
  globals.set("documents", std::move(documents));
  globals.set("add_generation_prompt", jinja::Value(request.add_generation_prompt));
  PHALANX_RETURN_IF_ERROR(set_variables(variables, globals));
  jinja::Interpreter interpreter(program_->limits,
                                 program_->unset_names,
                                 request.now.value_or(std::chrono::system_clock::now()));
  PHALANX_TRY(jinja::MarkedText text, interpreter.run(program_->body, globals));
  if (final_message.has_value()) {
    PHALANX_TRY(text, final_message->cut(text));
  }
  return segments_of(text);
}

bool ChatTemplate::mentions(std::string_view variable) const {
  return program_->survey.names.contains(variable);
}

Result<ChatTemplate> compile_chat_template(const Tokenizer& tokenizer,
                                           std::string_view source,
                                           TemplateLimits limits) {
  std::vector<std::pair<std::string, std::string>> constants;
  for (const NamedToken& token : tokenizer.named_tokens()) {
    constants.emplace_back(token.name, token.text);
  }
  return ChatTemplate::compile(source, std::move(constants), limits);
}

Result<ChatTemplate> compile_chat_template(const Tokenizer& tokenizer, TemplateLimits limits) {
  if (tokenizer.chat_template().empty()) {
    return not_found("the model has no chat template");
  }
  return compile_chat_template(tokenizer, tokenizer.chat_template(), limits);
}

}  // namespace phalanx::tokenizer
