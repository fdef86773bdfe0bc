// SPDX-License-Identifier: Apache-2.0
#include "phalanx/openai/responses.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>

namespace phalanx::openai {
namespace {

enum class Form { kWhole, kChunk };

// JSON has no infinity. This is what clients of this API know as "never".
constexpr float kImpossibleLogprob = -9999.0F;

float finite(float logprob) {
  return std::isfinite(logprob) ? logprob : kImpossibleLogprob;
}

void write_head(json::Writer& json, const ResponseHead& head, std::string_view object) {
  json.key("id").text(head.id);
  json.key("object").text(object);
  json.key("created").integer(head.created);
  json.key("model").text(head.model);
}

void write_usage(json::Writer& json, const Usage& usage) {
  json.key("usage").begin_object();
  json.key("prompt_tokens").unsigned_integer(usage.prompt_tokens);
  json.key("completion_tokens").unsigned_integer(usage.completion_tokens);
  json.key("total_tokens").unsigned_integer(usage.prompt_tokens + usage.completion_tokens);
  if (usage.cached_tokens) {
    json.key("prompt_tokens_details").begin_object();
    json.key("cached_tokens").unsigned_integer(*usage.cached_tokens).end_object();
  }
  json.end_object();
}

void write_token(json::Writer& json, std::string_view bytes, float logprob) {
  json.key("token").text(bytes);
  json.key("logprob").real(finite(logprob));
  json.key("bytes").begin_array();
  for (const char c : bytes) {
    json.unsigned_integer(static_cast<unsigned char>(c));
  }
  json.end_array();
}

void write_chat_logprobs(json::Writer& json, const ChoiceText& choice) {
  json.begin_object().key("content").begin_array();
  for (const TokenLogprobs& token : choice.logprobs) {
    json.begin_object();
    write_token(json, token.bytes, token.logprob);
    json.key("top_logprobs").begin_array();
    for (const auto& [bytes, logprob] : token.top) {
      json.begin_object();
      write_token(json, bytes, logprob);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().key("refusal").null().end_object();
}

// Keyed by text, so of tokens with the same text the likeliest is shown.
void write_top_map(json::Writer& json, const TokenLogprobs& token) {
  std::unordered_set<std::string> written;
  json.begin_object();
  const auto write = [&](std::string_view bytes, float logprob) {
    if (written.insert(json::quote(bytes)).second) {
      json.key(bytes).real(finite(logprob));
    }
  };
  for (const auto& [bytes, logprob] : token.top) {
    write(bytes, logprob);
  }
  write(token.bytes, token.logprob);
  json.end_object();
}

void write_text_logprobs(json::Writer& json, const ChoiceText& choice) {
  json.begin_object().key("text_offset").begin_array();
  for (const TokenLogprobs& token : choice.logprobs) {
    json.unsigned_integer(token.text_offset);
  }
  json.end_array().key("token_logprobs").begin_array();
  for (const TokenLogprobs& token : choice.logprobs) {
    json.real(finite(token.logprob));
  }
  json.end_array().key("tokens").begin_array();
  for (const TokenLogprobs& token : choice.logprobs) {
    json.text(token.bytes);
  }
  json.end_array().key("top_logprobs").begin_array();
  for (const TokenLogprobs& token : choice.logprobs) {
    write_top_map(json, token);
  }
  json.end_array().end_object();
}

void write_stop_reason(json::Writer& json, const StopReason& reason) {
  json.key("stop_reason");
  if (const auto* token = std::get_if<TokenId>(&reason)) {
    json.integer(*token);
  } else if (const auto* text = std::get_if<std::string>(&reason)) {
    json.text(*text);
  } else {
    json.null();
  }
}

// Where the text of a choice stands.
struct TextPlace {
  std::string_view before;
  std::string_view after;
};

TextPlace text_place(Api api, Form form) {
  if (api == Api::kText) {
    return {R"(,"text":)", ""};
  }
  if (form == Form::kWhole) {
    return {R"(,"message":{"role":"assistant","content":)", R"(,"refusal":null})"};
  }
  return {R"(,"delta":{"content":)", "}"};
}

// For every token of every client: what is always the same is written in stretches.
void write_choice(json::Writer& json, const ChoiceText& choice, Api api, Form form) {
  const TextPlace place = text_place(api, form);
  json.begin_object().written(R"("index":)").unsigned_integer(choice.index);
  json.written(place.before).text(choice.text).written(place.after);
  if (!choice.has_logprobs) {
    json.written(R"(,"logprobs":null)");
  } else {
    json.written(R"(,"logprobs":)");
    api == Api::kChat ? write_chat_logprobs(json, choice) : write_text_logprobs(json, choice);
  }
  json.written(R"(,"finish_reason":)").text_or_null(choice.finish_reason);
  if (form == Form::kWhole || !choice.finish_reason.empty()) {
    write_stop_reason(json, choice.stop_reason);
  }
  json.end_object();
}

std::string whole(const ResponseHead& head,
                  std::span<const ChoiceText> choices,
                  const Usage& usage,
                  Api api) {
  json::Writer json;
  json.begin_object();
  write_head(json, head, api == Api::kChat ? "chat.completion" : "text_completion");
  json.key("choices").begin_array();
  for (const ChoiceText& choice : choices) {
    write_choice(json, choice, api, Form::kWhole);
  }
  json.end_array();
  write_usage(json, usage);
  json.key("system_fingerprint").null();
  return json.end_object().take();
}

void write_model(json::Writer& json, const ModelCard& model) {
  json.begin_object();
  json.key("id").text(model.id).key("object").text("model");
  json.key("created").integer(model.created).key("owned_by").text("phalanx");
  json.key("root").text(model.root).key("parent").null();
  json.key("max_model_len").unsigned_integer(model.max_model_len);
  json.end_object();
}

std::string random_id(std::string_view prefix, std::uint64_t high, std::uint64_t low) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id(prefix);
  for (const std::uint64_t half : {high, low}) {
    for (int shift = 60; shift >= 0; shift -= 4) {
      id.push_back(kDigits[(half >> static_cast<unsigned>(shift)) & 15U]);
    }
  }
  return id;
}

}  // namespace

std::string chat_completion(const ResponseHead& head,
                            std::span<const ChoiceText> choices,
                            const Usage& usage) {
  return whole(head, choices, usage, Api::kChat);
}

std::string text_completion(const ResponseHead& head,
                            std::span<const ChoiceText> choices,
                            const Usage& usage) {
  return whole(head, choices, usage, Api::kText);
}

StreamChunks::StreamChunks(Api api, const ResponseHead& head) : api_(api) {
  json::Writer json;
  json.begin_object();
  write_head(json, head, api == Api::kChat ? "chat.completion.chunk" : "text_completion");
  before_ = json.key("choices").begin_array().take();
}

json::Writer StreamChunks::begin(std::size_t bytes) const {
  json::Writer json;
  json.reserve(before_.size() + bytes);
  json.written(before_);
  return json;
}

std::string StreamChunks::end(json::Writer json, const Usage* usage) const {
  json.end_array();
  if (usage != nullptr) {
    write_usage(json, *usage);
  }
  return json.written("}").take();
}

std::string StreamChunks::role(std::uint32_t index, const Usage* usage) const {
  json::Writer json = begin(256);
  json.begin_object().key("index").unsigned_integer(index);
  json.key("delta").begin_object().key("role").text("assistant").key("content").text("");
  json.end_object().key("logprobs").null().key("finish_reason").null().end_object();
  return end(std::move(json), usage);
}

std::string StreamChunks::text(const ChoiceText& choice, const Usage* usage) const {
  json::Writer json = begin(128 + choice.text.size());
  write_choice(json, choice, api_, Form::kChunk);
  return end(std::move(json), usage);
}

std::string StreamChunks::usage(const Usage& usage) const {
  return end(begin(256), &usage);
}

std::string model_list(std::span<const ModelCard> models) {
  json::Writer json;
  json.begin_object().key("object").text("list").key("data").begin_array();
  for (const ModelCard& model : models) {
    write_model(json, model);
  }
  return json.end_array().end_object().take();
}

std::string model_object(const ModelCard& model) {
  json::Writer json;
  write_model(json, model);
  return json.take();
}

std::string tokenize_response(std::span<const TokenId> tokens,
                              std::uint64_t max_model_len,
                              const std::vector<std::string>* token_strings) {
  json::Writer json;
  json.begin_object().key("count").unsigned_integer(tokens.size());
  json.key("max_model_len").unsigned_integer(max_model_len);
  json.key("tokens").begin_array();
  for (const TokenId token : tokens) {
    json.integer(token);
  }
  json.end_array().key("token_strs");
  if (token_strings == nullptr) {
    json.null();
  } else {
    json.begin_array();
    for (const std::string& text : *token_strings) {
      json.text(text);
    }
    json.end_array();
  }
  return json.end_object().take();
}

std::string detokenize_response(std::string_view prompt) {
  json::Writer json;
  return json.begin_object().key("prompt").text(prompt).end_object().take();
}

std::string chat_completion_id(std::uint64_t random_high, std::uint64_t random_low) {
  return random_id("chatcmpl-", random_high, random_low);
}

std::string completion_id(std::uint64_t random_high, std::uint64_t random_low) {
  return random_id("cmpl-", random_high, random_low);
}

}  // namespace phalanx::openai
