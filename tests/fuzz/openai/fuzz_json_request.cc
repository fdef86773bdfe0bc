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
  return parsed || (parsed.error().code != "invalid_json" && parsed.error().param.has_value());
}

// What a client is told must itself be valid, whatever it sent.
template <typename T>
void check_answer(const ApiResult<T>& parsed) {
  if (!parsed) {
    const ApiError& error = parsed.error();
    PHALANX_CHECK(error.http_status == 400, "a bad request is the client's fault");
    PHALANX_CHECK(!error.message.empty(), "an error says what is wrong");
    PHALANX_CHECK(is_json_object(error_body(error)), "the error body is JSON");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  RequestBounds bounds;
  bounds.vocab_size = 1000;
  const auto chat = parse_chat_request(text, bounds);
  check_answer(chat);
  if (chat) {
    // The conversation that goes into the template is one that would be accepted again.
    const auto again =
        parse_chat_request("{\"messages\":" + chat->conversation.messages_json + "}", bounds);
    PHALANX_CHECK(again, "the written conversation is refused");
    PHALANX_CHECK(again->conversation.messages_json == chat->conversation.messages_json,
                  "writing is not stable");
  }
  check_answer(parse_completion_request(text, bounds));
  check_answer(parse_tokenize_request(text, bounds));
  check_answer(parse_detokenize_request(text, bounds));
  return 0;
}
