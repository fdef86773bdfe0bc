// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "phalanx/base/check.h"
#include "phalanx/openai/requests.h"

namespace {

using namespace phalanx::openai;

bool is_json_object(std::string_view text) {
  const auto parsed = parse_chat_request(text);
  const auto* error = std::get_if<ApiError>(&parsed);
  return error == nullptr || (error->code != "invalid_json" && error->param.has_value());
}

// What a client is told must itself be valid, whatever it sent.
template <typename T>
void check_answer(const Parsed<T>& parsed) {
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    PHALANX_CHECK(error->http_status == 400, "a bad request is the client's fault");
    PHALANX_CHECK(!error->message.empty(), "an error says what is wrong");
    PHALANX_CHECK(is_json_object(error_body(*error)), "the error body is JSON");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  RequestBounds bounds;
  bounds.vocab_size = 1000;
  const auto chat = parse_chat_request(text, bounds);
  check_answer(chat);
  if (const auto* request = std::get_if<ChatRequest>(&chat)) {
    // The conversation that goes into the template is one that would be accepted again.
    const auto again =
        parse_chat_request("{\"messages\":" + request->conversation.messages_json + "}", bounds);
    const auto* second = std::get_if<ChatRequest>(&again);
    PHALANX_CHECK(second != nullptr, "the written conversation is refused");
    PHALANX_CHECK(second->conversation.messages_json == request->conversation.messages_json,
                  "writing is not stable");
  }
  check_answer(parse_completion_request(text, bounds));
  check_answer(parse_tokenize_request(text, bounds));
  check_answer(parse_detokenize_request(text, bounds));
  return 0;
}
