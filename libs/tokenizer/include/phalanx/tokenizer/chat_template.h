// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/jinja/limits.h"
#include "phalanx/tokenizer/text_segment.h"

namespace phalanx::tokenizer {

class Tokenizer;

using TemplateLimits = jinja::Limits;

// The variables of one rendering, as JSON text. All of it counts as user data.
struct RenderRequest {
  std::string_view messages_json = {};   // array of objects
  std::string_view tools_json = {};      // array; empty or "null" if there are none
  std::string_view documents_json = {};  // likewise
  std::string_view variables_json = {};  // object, further variables by name; may be empty
  bool add_generation_prompt = true;     // end with the opening of the assistant's turn
  // End with the text of the final message instead, so that the model goes on with it.
  // Requires: not add_generation_prompt.
  bool continue_final_message = false;
  // What strftime_now() tells, in local time; the system's clock if absent.
  std::optional<std::chrono::system_clock::time_point> now = std::nullopt;
};

// A compiled chat template (phalanx/jinja/template.h) and what conversations need around it.
//
// A message's content is text or a list of parts; a template that never goes through the parts of
// one gets the texts of a list of text parts, joined by line ends. Calls of tools come with an
// empty content and objects as arguments, and are given so, or without content, or with arguments
// as text: in the first form in which the template shows the calls of a conversation of its own.
//
// Threads: render() is const and may be called from any thread at the same time.
class ChatTemplate {
 public:
  struct Program;  // internal

  // Compiles `source`. `constants` are variables that count as part of the template ("bos_token",
  // "eos_token", …).
  //
  // Errors: kInvalidArgument  syntax error, with its line
  //         kUnimplemented    a tag, filter, test, function or method that this version does not
  //                           have, by name and line: a template never fails on one at a request
  [[nodiscard]] static Result<ChatTemplate> compile(
      std::string_view source,
      std::vector<std::pair<std::string, std::string>> constants = {},
      TemplateLimits limits = {});

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;
  ~ChatTemplate();

  // Renders a conversation. Neighbouring segments differ in is_user_data.
  //
  // Errors: kInvalidArgument    the JSON is not what it must be, the template called
  //                             raise_exception (its message), or an operation does not fit the
  //                             values ("'undefined' has no attribute …", with the line); there
  //                             is no text to continue, or the template left it out
  //         kResourceExhausted  a limit was reached
  [[nodiscard]] Result<std::vector<TextSegment>> render(const RenderRequest& request) const;

  // Whether the template names this variable ("tools") at all; if not, it cannot reach the prompt.
  [[nodiscard]] bool mentions(std::string_view variable) const;

 private:
  explicit ChatTemplate(std::unique_ptr<const Program> program);

  std::unique_ptr<const Program> program_;
};

// A template with the model's named tokens as constants.
//
// Errors: as ChatTemplate::compile
[[nodiscard]] Result<ChatTemplate> compile_chat_template(const Tokenizer& tokenizer,
                                                         std::string_view source,
                                                         TemplateLimits limits = {});

// The model's own template.
// Errors: likewise; kNotFound if the model has none.
[[nodiscard]] Result<ChatTemplate> compile_chat_template(const Tokenizer& tokenizer,
                                                         TemplateLimits limits = {});

}  // namespace phalanx::tokenizer
