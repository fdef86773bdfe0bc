// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "phalanx/base/ids.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx::tokenizer {

// Text of a token stream, one token at a time. Everything it returns is valid UTF-8; what it
// returns in all, finish() included, equals Tokenizer::decode of the whole stream with the same
// options. It withholds at
// most three bytes, and only while they may still become a character.
//
// Ownership: borrows the tokenizer, which must outlive it.
// Copyable: a copy continues on its own.
// Threads:   one at a time.
class IncrementalDecoder {
 public:
  explicit IncrementalDecoder(const Tokenizer& tokenizer, DecodeOptions options = {});

  // The text that `id` completes; empty if there is none yet.
  [[nodiscard]] std::string push(TokenId id);

  // As push() of each, for who does not want their text: it looks at the last ones only, unless no
  // byte has come and the first space may have to go.
  void skip(std::span<const TokenId> ids);

  // How many characters at the beginning of what the last push() returned hold no byte of its
  // token: U+FFFD for what came before and did not become a character.
  [[nodiscard]] std::size_t earlier_characters() const { return earlier_characters_; }

  // What is left at the end of the stream: U+FFFD for an unfinished character, else nothing. The
  // decoder is then as new.
  [[nodiscard]] std::string finish();

  [[nodiscard]] std::size_t pending_bytes() const { return pending_bytes_; }

 private:
  [[nodiscard]] bool begins_character(TokenId id) const;

  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  std::array<char, 4> pending_{};
  std::size_t pending_bytes_ = 0;
  std::size_t earlier_characters_ = 0;
  bool begun_ = false;  // a byte has come
};

}  // namespace phalanx::tokenizer
