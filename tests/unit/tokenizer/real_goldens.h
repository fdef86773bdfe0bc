// SPDX-License-Identifier: Apache-2.0
// Checks of a tokenizer against what other implementations computed for it
// (tools/make_real_tokenizer_goldens).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/gguf/file.h"
#include "phalanx/tokenizer/incremental_decoder.h"

#include "support/gguf_writer.h"
#include "test_data.h"

namespace phalanx::tokenizer {

inline std::string bytes_of_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// Decodes at once and token by token.
inline void expect_decoded(const Tokenizer& tokenizer,
                           std::span<const TokenId> ids,
                           DecodeOptions options,
                           const std::string& text) {
  EXPECT_EQ(tokenizer.decode(ids, options), text);
  IncrementalDecoder decoder(tokenizer, options);
  std::string streamed;
  for (const TokenId id : ids) {
    streamed += decoder.push(id);
  }
  EXPECT_EQ(streamed + decoder.finish(), text);
}

// The goldens of one tokenizer in a file, by the number of the text.
class RealGoldens {
 public:
  RealGoldens(const nlohmann::json& file, const char* name) : file_(file), own_(file[name]) {}

  // Checks every text and returns how many there are.
  [[nodiscard]] std::size_t expect_equal(const Tokenizer& tokenizer) const {
    const std::size_t count = file_["texts"].size();
    EXPECT_EQ(own_["ids"].size(), count);
    for (std::size_t i = 0; i < count && !testing::Test::HasFailure(); ++i) {
      expect_equal(tokenizer, i);
    }
    for (const auto& broken : file_["broken"]) {
      const auto ids =
          tokenizer.encode(bytes_of_hex(broken[0].get<std::string>()), {.parse_special = true});
      EXPECT_EQ(*ids, ids_of(broken[1].get<std::size_t>())) << broken;
    }
    return count;
  }

 private:
  [[nodiscard]] std::vector<TokenId> ids_of(std::size_t i) const {
    return own_["ids"][i].get<std::vector<TokenId>>();
  }

  [[nodiscard]] std::string text_of(const char* key, std::size_t i, const std::string& rest) const {
    return own_[key].value(std::to_string(i), rest);
  }

  void expect_equal(const Tokenizer& tokenizer, std::size_t i) const {
    const auto text = file_["texts"][i].get<std::string>();
    SCOPED_TRACE(text);
    const std::vector<TokenId> ids = ids_of(i);
    const std::vector<TokenId> plain = own_["plain_ids"].value(std::to_string(i), ids);
    EXPECT_EQ(*tokenizer.encode(text, {.parse_special = true}), ids);
    EXPECT_EQ(*tokenizer.encode(text), plain);
    expect_decoded(tokenizer, ids, {.skip_special = false}, text_of("decoded", i, text));
    expect_decoded(tokenizer, ids, {.skip_special = true}, text_of("skipped", i, text));
    const std::span<const TokenId> all = ids;
    if (own_["without_last"].contains(std::to_string(i))) {
      expect_decoded(tokenizer,
                     all.first(ids.size() - 1),
                     {.skip_special = false},
                     text_of("without_last", i, ""));
    }
    if (own_["without_first"].contains(std::to_string(i))) {
      expect_decoded(
          tokenizer, all.subspan(1), {.skip_special = false}, text_of("without_first", i, ""));
    }
  }

  const nlohmann::json& file_;
  const nlohmann::json& own_;
};

// The tokenizer of a byte-level tokenizer.json as a GGUF file has it.
inline std::vector<std::byte> gguf_of(const nlohmann::json& tokenizer, std::string_view pre) {
  constexpr std::int32_t kNormal = 1;
  constexpr std::int32_t kControl = 3;
  constexpr std::int32_t kUserDefined = 4;
  constexpr std::int32_t kUnused = 5;
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  const auto put = [&](std::size_t id, const std::string& token, std::int32_t type) {
    for (std::size_t next = tokens.size(); next <= id; ++next) {
      tokens.push_back("[PAD" + std::to_string(next) + "]");
      types.push_back(kUnused);
    }
    tokens[id] = token;
    types[id] = type;
  };
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) {
    put(id.get<std::size_t>(), token, kNormal);
  }
  for (const auto& token : tokenizer["added_tokens"]) {
    put(token["id"].get<std::size_t>(),
        token["content"].get<std::string>(),
        token["special"].get<bool>() ? kControl : kUserDefined);
  }
  std::vector<std::string> merges;
  for (const auto& merge : tokenizer["model"]["merges"]) {
    merges.push_back(merge.is_string()
                         ? merge.get<std::string>()
                         : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return test::GgufWriter()
      .text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", pre)
      .texts("tokenizer.ggml.tokens", tokens)
      .integers("tokenizer.ggml.token_type", types)
      .texts("tokenizer.ggml.merges", merges)
      .finish();
}

inline std::unique_ptr<Tokenizer> load_gguf(std::span<const std::byte> bytes) {
  const auto file = gguf::File::parse(bytes);
  EXPECT_TRUE(file.has_value()) << file.error().to_string();
  auto loaded = load_tokenizer(file->metadata());
  EXPECT_TRUE(loaded.has_value()) << loaded.error().to_string();
  return loaded ? *std::move(loaded) : nullptr;
}

}  // namespace phalanx::tokenizer
