// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tokenizer/chat_template.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/jinja/json_value.h"
#include "phalanx/jinja/template.h"
#include "phalanx/tokenizer/tokenizer.h"

#include "conversation_values.h"

namespace phalanx::tokenizer {
namespace {

constexpr std::array<std::string_view, 4> kOwnVariables{
    "messages", "tools", "documents", "add_generation_prompt"};

// Of a look at what a template makes of a conversation of three messages.
constexpr std::size_t kProbeIterations = 10'000;
constexpr std::size_t kProbeWorkBytes = std::size_t{4} << 20;

MessageForm form_of(const jinja::Template& compiled, std::string_view source) {
  MessageForm form;
  form.contents = compiled.takes_lists_only()   ? Contents::kLists
                  : compiled.iterates_content() ? Contents::kBoth
                                                : Contents::kTexts;
  // One that does not know the role would drop the message silently.
  form.knows_developers = source.find("developer") != std::string_view::npos;
  return form;
}

std::vector<TextSegment> segments_of(const jinja::MarkedText& text) {
  std::vector<TextSegment> segments;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.user_data().run_end(at, text.size());
    segments.push_back({text.text().substr(at, end - at), text.user_data().overlaps({at, end})});
    at = end;
  }
  return segments;
}

// Adds what the request gives besides the variables that every template has.
Status add_variables(const jinja::Value& given, jinja::Template::Variables& variables) {
  if (given.is_none()) {
    return ok();
  }
  if (given.as_dict() == nullptr) {
    return invalid_argument("template variables: expected an object");
  }
  for (const auto& [name, value] : given.as_dict()->entries()) {
    for (const std::string_view own : kOwnVariables) {
      if (name->view() == own) {
        return invalid_argument("template variables: \"" + std::string(own) +
                                "\" is set by the request itself");
      }
    }
    variables.emplace_back(name->view(), value);
  }
  return ok();
}

}  // namespace

struct ChatTemplate::Program {
  jinja::Template source;
  MessageForm form;
  std::vector<std::pair<std::string, std::string>> constants;
  TemplateLimits limits;

  [[nodiscard]] Result<std::vector<TextSegment>> render(const RenderRequest& request) const;
  [[nodiscard]] bool shows_calls() const;
  void fit_calls();
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
  Result<jinja::Template> compiled = jinja::Template::compile(source);
  if (!compiled) {
    return std::move(compiled).error().with("chat template");
  }
  const MessageForm form = form_of(*compiled, source);
  auto program =
      std::make_unique<Program>(Program{*std::move(compiled), form, std::move(constants), limits});
  program->fit_calls();
  return ChatTemplate(std::move(program));
}

Result<std::vector<TextSegment>> ChatTemplate::render(const RenderRequest& request) const {
  return program_->render(request);
}

// Whether name and argument of a call in a conversation reach the prompt, and not as Python shows
// them.
bool ChatTemplate::Program::shows_calls() const {
  RenderRequest request;
  request.messages_json =
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[)"
      R"({"id":"call00000","type":"function","function":{"name":"probe_of_calls",)"
      R"("arguments":{"probe_of_arguments":1}}}]},)"
      R"({"role":"tool","tool_call_id":"call00000","name":"probe_of_calls","content":"b"}])";
  const auto rendered = render(request);
  std::string text;
  for (const TextSegment& segment : rendered ? *rendered : std::vector<TextSegment>()) {
    text += segment.text;
  }
  return text.find("probe_of_calls") != std::string::npos &&
         text.find("probe_of_arguments") != std::string::npos &&
         text.find("'probe_of_arguments'") == std::string::npos;
}

// Most templates take a call with an empty content and an object of arguments. Those that show none
// so may want no content, or arguments as text. What bounds these looks is not the time, so that
// every process comes to the same answer.
void ChatTemplate::Program::fit_calls() {
  const MessageForm usual = form;
  const TemplateLimits full = limits;
  limits.loop_iterations_max = std::min(limits.loop_iterations_max, kProbeIterations);
  limits.work_bytes_max = std::min(limits.work_bytes_max, kProbeWorkBytes);
  for (const auto& [none, texts] :
       {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
    form.knows_none = none;
    form.calls_are_texts = texts;
    if (shows_calls()) {
      limits = full;
      return;
    }
  }
  limits = full;
  form = usual;
}

Result<std::vector<TextSegment>> ChatTemplate::Program::render(const RenderRequest& request) const {
  jinja::Value given;
  if (!request.variables_json.empty()) {
    PHALANX_TRY(given, jinja::parse_json_value(request.variables_json, "template variables"));
  }
  if (request.continue_final_message && request.add_generation_prompt) {
    return invalid_argument(
        "continue_final_message: expected no add_generation_prompt with it: the final message is "
        "either continued or followed by a new one");
  }
  PHALANX_TRY(jinja::Value messages, messages_of(request, form));
  std::optional<FinalMessage> final_message;
  if (request.continue_final_message) {
    PHALANX_TRY(final_message, FinalMessage::mark(messages));
  }
  PHALANX_TRY(jinja::Value tools, optional_list_of(request.tools_json, "tools"));
  PHALANX_TRY(jinja::Value documents, optional_list_of(request.documents_json, "documents"));
  jinja::Template::Variables variables;
  for (const auto& [name, text] : constants) {
    variables.emplace_back(name, jinja::Value::literal(text));
  }
  variables.emplace_back("messages", std::move(messages));
  variables.emplace_back("tools", std::move(tools));
  variables.emplace_back("documents", std::move(documents));
  variables.emplace_back("add_generation_prompt", jinja::Value(request.add_generation_prompt));
  PHALANX_RETURN_IF_ERROR(add_variables(given, variables));
  PHALANX_TRY(
      jinja::MarkedText text,
      source.render(variables, limits, request.now.value_or(std::chrono::system_clock::now())));
  if (final_message.has_value()) {
    PHALANX_TRY(text, final_message->cut(text));
  }
  return segments_of(text);
}

bool ChatTemplate::mentions(std::string_view variable) const {
  return program_->source.mentions(variable);
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
