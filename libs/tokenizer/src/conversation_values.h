// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "phalanx/base/result.h"
#include "phalanx/jinja/marked_text.h"
#include "phalanx/jinja/value.h"
#include "phalanx/tokenizer/chat_template.h"

namespace phalanx::tokenizer {

// What a template takes as the content of a message.
enum class Contents : std::uint8_t {
  kTexts,  // lists of text parts become their texts, joined by line ends
  kBoth,   // they are as they came
  kLists,  // texts become lists of one part
};

struct MessageForm {
  Contents contents = Contents::kBoth;
  bool knows_developers = true;  // else that role has its older name, which is "system"
  bool knows_none = false;       // what only calls tools has no content, else an empty one
  bool calls_are_texts = false;  // arguments are their JSON, else objects
};

// The messages of a request. Their roles, which are words of the protocol, are the template's own
// text: it may make a special token of one.
//
// Errors: kInvalidArgument  not an array of objects
[[nodiscard]] Result<jinja::Value> messages_of(const RenderRequest& request, MessageForm form);

// Tools or documents: an array, or none. `what` names it in messages.
[[nodiscard]] Result<jinja::Value> optional_list_of(std::string_view json, std::string_view what);

// The end of the final message, found again in what a template made of it: a mark is put behind its
// text, and the rendering is cut there. Both as Hugging Face does it, whose rule for templates that
// strip the text is to strip what stands before the mark, too.
class FinalMessage {
 public:
  // Puts the mark behind the last text of the last message.
  //
  // Errors: kInvalidArgument  that message has no text
  [[nodiscard]] static Result<FinalMessage> mark(jinja::Value& messages);

  // The rendering up to the mark.
  //
  // Errors: kInvalidArgument  the template left the message out, or a part of it
  [[nodiscard]] Result<jinja::MarkedText> cut(const jinja::MarkedText& rendered) const;

 private:
  FinalMessage(std::string mark, std::string text)
      : mark_(std::move(mark)), text_(std::move(text)) {}

  std::string mark_;
  std::string text_;  // without space around it
};

}  // namespace phalanx::tokenizer
