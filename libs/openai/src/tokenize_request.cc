// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/result.h"
#include "phalanx/openai/requests.h"

#include "fields.h"
#include "template_input.h"

namespace phalanx::openai {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;  // the server's body limit is below
constexpr std::size_t kMaxTokens = std::size_t{1} << 22;

// Calls `read` for each member that is not null, until one is refused.
template <typename Read>
Refusal read_members(std::string_view json, Read&& read) {
  PHALANX_TRY(const json::Value object, parse_object(json));
  for (const auto& [key, value] : *object.as_object()) {
    if (!value.is_null()) {
      if (auto refusal = read(Field{key, value})) {
        return refusal;
      }
    }
  }
  return std::nullopt;
}

// Refuses what would change the tokens under its name here, unless it asks for what happens anyway;
// add_special of llama-server, whose default is another one there, never does. Returns whether the
// field is one of them.
bool read_foreign(const Field& field, Refusal* refusal) {
  if (field.name == "content") {
    *refusal = unsupported(field.name, "it is called prompt here");
  } else if (field.name == "add_special") {
    *refusal = unsupported(field.name, "it is called add_special_tokens here");
  } else if (field.name == "with_pieces") {
    const bool* const on = field.value.as_bool();
    if (on == nullptr || *on) {
      *refusal = unsupported(field.name, "it is called return_token_strs here");
    }
  } else if (field.name == "extra_body") {
    if (!is_empty(field.value)) {
      *refusal = unsupported(field.name, "its members are fields of the request itself here");
    }
  } else if (field.name == "chat_template_args") {
    if (!is_empty(field.value)) {
      *refusal = unsupported(field.name, "it is called chat_template_kwargs here");
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace

ApiResult<TokenizeRequest> parse_tokenize_request(std::string_view json,
                                                  const RequestBounds& bounds) {
  TokenizeRequest request;
  std::optional<bool> add_special_tokens;
  TemplateInputReader input(bounds, &request.ignored_fields);
  auto refusal = read_members(json, [&](const Field& field) -> Refusal {
    if (field.name == "model") {
      return read_text(field, &request.model, kMaxModelBytes);
    }
    if (field.name == "prompt") {
      return read_text(field, &request.prompt.emplace(), kMaxTextBytes);
    }
    Refusal refused;
    if (input.read(field, &refused)) {
      return refused;
    }
    if (field.name == "add_special_tokens") {
      return read_bool(field, &add_special_tokens.emplace());
    }
    if (field.name == "return_token_strs") {
      return read_bool(field, &request.return_token_strs);
    }
    if (read_foreign(field, &refused)) {
      return refused;
    }
    note_ignored(field.name, &request.ignored_fields);
    return std::nullopt;
  });
  if (!refusal) {
    refusal = input.finish();
  }
  if (refusal) {
    return *std::move(refusal);
  }
  request.conversation = input.take();
  if (request.prompt.has_value() == (request.conversation.message_count > 0)) {
    return invalid_field("prompt",
                         request.prompt
                             ? "prompt: expected either prompt or messages, came both"
                             : "prompt: expected either prompt or messages, came nothing");
  }
  if (!request.prompt && add_special_tokens.value_or(false)) {
    return unsupported("add_special_tokens", "the template writes all special tokens");
  }
  request.add_special_tokens = add_special_tokens.value_or(request.prompt.has_value());
  return request;
}

ApiResult<DetokenizeRequest> parse_detokenize_request(std::string_view json,
                                                      const RequestBounds& bounds) {
  DetokenizeRequest request;
  bool has_tokens = false;
  auto refusal = read_members(json, [&](const Field& field) -> Refusal {
    if (field.name == "model") {
      return read_text(field, &request.model, kMaxModelBytes);
    }
    if (field.name == "tokens") {
      has_tokens = true;
      return read_tokens(field, bounds.vocab_size, kMaxTokens, &request.tokens);
    }
    note_ignored(field.name, &request.ignored_fields);
    return std::nullopt;
  });
  if (refusal) {
    return *std::move(refusal);
  }
  if (!has_tokens) {
    return invalid_field("tokens", "tokens: expected a list of token ids, came nothing");
  }
  return request;
}

}  // namespace phalanx::openai
