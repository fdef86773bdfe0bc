// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx::serving {

inline constexpr TokenId kEosToken = 256;

// One token per byte (token id = byte) and one special token, kEosToken.
inline std::unique_ptr<tokenizer::Tokenizer> make_byte_tokenizer() {
  // The 256 characters that byte-level BPE writes bytes as.
  std::string vocabulary;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code_point = printable ? byte : next++;
    std::string character;
    if (code_point < 0x80) {
      character = static_cast<char>(code_point);
    } else {
      character += static_cast<char>(0xC0 | (code_point >> 6));
      character += static_cast<char>(0x80 | (code_point & 0x3F));
    }
    if (character == "\"" || character == "\\") {
      character.insert(0, "\\");
    }
    vocabulary += (byte == 0 ? "\"" : ",\"") + character + "\":" + std::to_string(byte);
  }
  const std::string json =
      R"({"added_tokens":[{"id":256,"content":"<|end|>","special":true,"single_word":false,"lstrip":false,)"
      R"("rstrip":false,"normalized":false}],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel",)"
      R"("add_prefix_space":false,"use_regex":true},"decoder":{"type":"ByteLevel"},"post_processor":null,)"
      R"("model":{"type":"BPE","vocab":{)" +
      vocabulary + R"(},"merges":[]}})";
  auto result = tokenizer::load_tokenizer_from_text(json);
  return result ? *std::move(result) : nullptr;
}

}  // namespace phalanx::serving
