// SPDX-License-Identifier: Apache-2.0
#include "phalanx/openai/requests.h"

#include "conversation.h"
#include "generation_fields.h"

namespace phalanx::openai {
namespace {

constexpr std::size_t kModelBytesMax = 256;

class ChatReader {
 public:
  explicit ChatReader(const RequestBounds& bounds)
      : bounds_(bounds), generation_(Endpoint::kChat, bounds_, &request_.generation) {}

  Refusal read(const Field& field) {
    if (field.name == "model") {
      return read_text(field, &request_.model, kModelBytesMax);
    }
    if (field.name == "messages") {
      return read_messages(
          field, bounds_.messages_max, &request_.generation.ignored_fields, &conversation_);
    }
    if (field.name == "add_generation_prompt") {
      return read_bool(field, &request_.add_generation_prompt);
    }
    if (field.name == "add_special_tokens") {
      bool add = false;
      auto refusal = read_bool(field, &add);
      return add ? unsupported(field.name, "the template writes all special tokens") : refusal;
    }
    if (field.name == "chat_template_kwargs") {
      return read_template_variables(field, &request_.template_variables_json);
    }
    if (field.name == "tools") {
      return read_tools(field);
    }
    if (field.name == "tool_choice") {
      const std::string* choice = field.value.as_string();
      tools_forbidden_ = choice != nullptr && *choice == "none";
    }
    return generation_.read(field);
  }

  Parsed<ChatRequest> finish() {
    if (conversation_.count == 0) {
      return invalid_field("messages",
                           "messages: expected a list of at least one message, came "
                           "nothing");
    }
    if (has_tools_ && !tools_forbidden_) {
      return unsupported("tools",
                         "tools cannot be called yet; leave them out, or send "
                         "tool_choice \"none\"");
    }
    if (auto refusal = generation_.finish()) {
      return *std::move(refusal);
    }
    request_.messages_json = std::move(conversation_.json);
    request_.message_count = conversation_.count;
    return std::move(request_);
  }

 private:
  Refusal read_tools(const Field& field) {
    const auto* tools = field.value.as_array();
    if (tools == nullptr) {
      return wrong(field, "a list");
    }
    has_tools_ = !tools->empty();
    return std::nullopt;
  }

  RequestBounds bounds_;
  ChatRequest request_;
  Conversation conversation_;
  GenerationReader generation_;
  bool has_tools_ = false;
  bool tools_forbidden_ = false;
};

}  // namespace

Parsed<ChatRequest> parse_chat_request(std::string_view json, const RequestBounds& bounds) {
  auto parsed = parse_object(json);
  if (auto* error = std::get_if<ApiError>(&parsed)) {
    return std::move(*error);
  }
  ChatReader reader(bounds);
  for (const auto& [key, value] : *std::get<JsonValue>(parsed).as_object()) {
    if (value.is_null()) {
      continue;
    }
    if (auto refusal = reader.read({key, value})) {
      return *std::move(refusal);
    }
  }
  return reader.finish();
}

}  // namespace phalanx::openai
