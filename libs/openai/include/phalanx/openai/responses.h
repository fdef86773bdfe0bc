// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/json/writer.h"

namespace phalanx::openai {

// All builders give JSON text in one line, always valid UTF-8: bytes that are not become U+FFFD.
// Pure; any thread.

enum class Api { kChat, kText };

// What every object of one answer carries. `model` is the name that clients use.
struct ResponseHead {
  std::string id;            // chat_completion_id() or completion_id()
  std::int64_t created = 0;  // Unix seconds
  std::string model;
};

struct Usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::optional<std::uint64_t> cached_tokens;  // prompt_tokens_details
};

// One sampled token with logprobs. `bytes` are exactly the token's, so they may be a part of a
// character. A logprob that is not finite is written as -9999.
struct TokenLogprobs {
  std::string bytes;
  float logprob = 0.0F;
  std::vector<std::pair<std::string, float>> top;  // (bytes, logprob), likeliest first
  std::size_t text_offset = 0;  // completions only: where its text begins in that of the choice,
                                // in characters
};

// Extension of vLLM: the stop token or string that ended the choice.
using StopReason = std::variant<std::monostate, TokenId, std::string>;

// A choice, or what one event adds to it.
struct ChoiceText {
  std::uint32_t index = 0;
  std::string_view text;
  std::string_view finish_reason;  // "stop", "length"; "" = null
  StopReason stop_reason;
  bool has_logprobs = false;  // else "logprobs": null
  std::span<const TokenLogprobs> logprobs;
};

[[nodiscard]] std::string chat_completion(const ResponseHead& head,
                                          std::span<const ChoiceText> choices,
                                          const Usage& usage);

[[nodiscard]] std::string text_completion(const ResponseHead& head,
                                          std::span<const ChoiceText> choices,
                                          const Usage& usage);

// The data of the events of one stream. What is in all of them is written once.
class StreamChunks {
 public:
  StreamChunks(Api api, const ResponseHead& head);

  // In chunks of a choice `usage` stands only for continuous_usage_stats.

  // The first chunk of a choice of a chat: role and empty content.
  [[nodiscard]] std::string role(std::uint32_t index, const Usage* usage = nullptr) const;

  // A further chunk. One sampled token is one chunk: the last one carries the finish reason beside
  // its text.
  [[nodiscard]] std::string text(const ChoiceText& choice, const Usage* usage = nullptr) const;

  // The chunk with "choices": [] that include_usage asks for, after all others.
  [[nodiscard]] std::string usage(const Usage& usage) const;

 private:
  [[nodiscard]] json::Writer begin(std::size_t bytes) const;
  [[nodiscard]] std::string end(json::Writer json, const Usage* usage) const;

  Api api_;
  std::string before_;  // what stands before the choices
};

// What ends every stream: the data of its last event.
inline constexpr std::string_view kStreamEnd = "[DONE]";

struct ModelCard {
  std::string id;
  std::int64_t created = 0;
  std::string root;  // where the weights came from
  std::uint64_t max_model_len = 0;
};
[[nodiscard]] std::string model_list(std::span<const ModelCard> models);
[[nodiscard]] std::string model_object(const ModelCard& model);

[[nodiscard]] std::string tokenize_response(
    std::span<const TokenId> tokens,
    std::uint64_t max_model_len,
    const std::vector<std::string>* token_strings = nullptr);
[[nodiscard]] std::string detokenize_response(std::string_view prompt);

// "chatcmpl-" / "cmpl-" and 32 hexadecimal digits.
[[nodiscard]] std::string chat_completion_id(std::uint64_t random_high, std::uint64_t random_low);
[[nodiscard]] std::string completion_id(std::uint64_t random_high, std::uint64_t random_low);

}  // namespace phalanx::openai
