// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/result.h"
#include "phalanx/openai/requests.h"

#include "generation_fields.h"
#include "template_input.h"

namespace phalanx::openai {
namespace {

class ChatReader {
 public:
  explicit ChatReader(const RequestBounds& bounds)
      : bounds_(bounds),
        generation_(Endpoint::kChat, bounds_, &request_.generation),
        input_(bounds_, &request_.generation.ignored_fields) {}

  Refusal read(const Field& field) {
    if (field.name == "model") {
      return read_text(field, &request_.model, kMaxModelBytes);
    }
    Refusal refusal;
    if (input_.read(field, &refusal)) {
      return refusal;
    }
    if (field.name == "add_special_tokens") {
      bool add = false;
      refusal = read_bool(field, &add);
      return add ? unsupported(field.name, "the template writes all special tokens") : refusal;
    }
    return generation_.read(field);
  }

  ApiResult<ChatRequest> finish() {
    if (auto refusal = input_.finish()) {
      return *std::move(refusal);
    }
    request_.conversation = input_.take();
    if (request_.conversation.message_count == 0) {
      return invalid_field("messages",
                           "messages: expected a list of at least one message, came "
                           "nothing");
    }
    if (auto refusal = generation_.finish()) {
      return *std::move(refusal);
    }
    return std::move(request_);
  }

 private:
  RequestBounds bounds_;
  ChatRequest request_;
  GenerationReader generation_;
  TemplateInputReader input_;
};

}  // namespace

ApiResult<ChatRequest> parse_chat_request(std::string_view json, const RequestBounds& bounds) {
  PHALANX_TRY(const json::Value object, parse_object(json));
  ChatReader reader(bounds);
  for (const auto& [key, value] : *object.as_object()) {
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
