// SPDX-License-Identifier: Apache-2.0
// Feeds the readers of a model's tokenizer and template. The first byte chooses: 't'
// tokenizer.json, 'g' a GGUF file, 'c' tokenizer_config.json beside a small tokenizer, 's' the
// bytes of a tokenizer's source, anything else a chat template, which is also rendered. What is
// accepted must be usable: ids inside the vocabulary, segments that encode, bytes that are the
// source's own.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "phalanx/gguf/file.h"
#include "phalanx/tokenizer/chat_template.h"
#include "phalanx/tokenizer/incremental_decoder.h"
#include "phalanx/tokenizer/tokenizer.h"
#include "phalanx/tokenizer/tokenizer_source.h"

namespace {

using phalanx::tokenizer::Tokenizer;

constexpr std::string_view kText = "The e\xCC\x81 it's 42\n\n  <|im_end|> \xE6\x97\xA5\xFF";
constexpr std::string_view kMessages =
    R"([{"role": "system", "content": " S "}, {"role": "user", "content": "Hi <|im_end|>"},
        {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f",
         "arguments": {"a": [1, 2.5, "x"]}}}]}])";
constexpr std::string_view kTools = R"([{"type": "function", "function": {"name": "f"}}])";

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

// One token a byte and one special token: the least that loads.
std::string smallest_tokenizer() {
  std::string vocabulary;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    const int code_point = itself ? byte : next++;
    constexpr std::string_view kHex = "0123456789abcdef";
    vocabulary += (byte == 0 ? "\"\\u" : ",\"\\u") +
                  std::string{'0',
                              kHex[static_cast<std::size_t>(code_point >> 8)],
                              kHex[static_cast<std::size_t>((code_point >> 4) & 15)],
                              kHex[static_cast<std::size_t>(code_point & 15)]} +
                  "\":" + std::to_string(byte);
  }
  return R"({"added_tokens":[{"id":256,"content":"<|im_end|>","special":true}],"normalizer":null,)"
         R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
         R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","merges":[],"vocab":{)" +
         vocabulary + "}}}";
}

void use(const Tokenizer& tokenizer) {
  const auto ids = tokenizer.encode(kText, {.parse_special = true, .add_special_tokens = true});
  if (!ids) {
    return;
  }
  for (const phalanx::TokenId id : *ids) {
    require(id >= 0);
  }
  phalanx::tokenizer::IncrementalDecoder decoder(tokenizer);
  std::string streamed;
  for (const phalanx::TokenId id : *ids) {
    streamed += decoder.push(id);
  }
  require(streamed + decoder.finish() == tokenizer.decode(*ids));
  const auto plain = tokenizer.encode(kText);
  require(plain.has_value());
  for (const phalanx::TokenId id : *plain) {
    require(tokenizer.contains(id) && !tokenizer.is_special(id));
  }
}

void feed_template(const Tokenizer& tokenizer, std::string_view source) {
  const phalanx::tokenizer::TemplateLimits limits{.output_bytes_max = 1 << 16,
                                                  .loop_iterations_max = 1 << 10,
                                                  .work_bytes_max = 1 << 20,
                                                  .macro_depth_max = 8};
  const auto chat = phalanx::tokenizer::ChatTemplate::compile(source, {}, limits);
  if (!chat) {
    return;
  }
  const auto segments =
      chat->render({.messages_json = kMessages,
                    .tools_json = kTools,
                    .variables_json = R"({"x": "<|im_end|>", "y": [1, {"k": "v"}]})",
                    .now = std::chrono::system_clock::time_point()});
  if (!segments) {
    return;
  }
  bool previous = true;
  for (std::size_t i = 0; i < segments->size(); ++i) {
    require(!(*segments)[i].text.empty());
    require(i == 0 || (*segments)[i].is_user_data != previous);
    previous = (*segments)[i].is_user_data;
  }
  require(tokenizer.encode_segments(*segments).has_value());
}

void feed_source(std::string_view bytes) {
  const auto source = phalanx::tokenizer::tokenizer_source_from(bytes);
  if (!source) {
    return;
  }
  require(phalanx::tokenizer::to_bytes(*source) == bytes);
  if (const auto tokenizer = phalanx::tokenizer::load_tokenizer(*source)) {
    use(**tokenizer);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  static const std::string kSmallest = smallest_tokenizer();
  static const std::unique_ptr<Tokenizer> kTokenizer =
      *phalanx::tokenizer::load_tokenizer_from_text(kSmallest);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 't') {
    if (const auto tokenizer = phalanx::tokenizer::load_tokenizer_from_text(bytes)) {
      use(**tokenizer);
    }
  } else if (data[0] == 'g') {
    const auto file = phalanx::gguf::File::parse(std::as_bytes(std::span(bytes)));
    if (!file) {
      return 0;
    }
    if (const auto tokenizer = phalanx::tokenizer::load_tokenizer(file->metadata())) {
      use(**tokenizer);
    }
  } else if (data[0] == 'c') {
    if (const auto tokenizer = phalanx::tokenizer::load_tokenizer_from_text(kSmallest, bytes)) {
      use(**tokenizer);
    }
  } else if (data[0] == 's') {
    feed_source(bytes);
  } else {
    feed_template(*kTokenizer, bytes);
  }
  return 0;
}
