// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tokenizer/incremental_decoder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "phalanx/base/utf8.h"

namespace phalanx::tokenizer {

IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, DecodeOptions options)
    : tokenizer_(&tokenizer), options_(options) {}

std::string IncrementalDecoder::push(TokenId id) {
  earlier_characters_ = 0;
  if (options_.skip_special && tokenizer_->is_special(id)) {
    return {};
  }
  std::string_view token = tokenizer_->token_bytes(id);
  if (!begun_ && !token.empty()) {
    begun_ = true;
    if (tokenizer_->strips_first_space() && !options_.continues && token.starts_with(' ')) {
      token.remove_prefix(1);
    }
  }
  if (pending_bytes_ == 0 && is_valid_utf8(token)) {  // almost all are
    return std::string(token);
  }
  std::string bytes(pending_.data(), pending_bytes_);
  bytes.append(token);
  const std::size_t earlier = std::exchange(pending_bytes_, 0);

  std::string text;
  const std::string_view all = bytes;
  for (std::size_t i = 0; i < all.size();) {
    const Utf8Unit unit = next_utf8_unit(all.substr(i));
    if (unit.kind == Utf8Unit::Kind::kUnfinished) {
      std::copy(all.begin() + static_cast<std::ptrdiff_t>(i), all.end(), pending_.begin());
      pending_bytes_ = unit.bytes;
    } else if (unit.kind == Utf8Unit::Kind::kCharacter) {
      text.append(all.substr(i, unit.bytes));
    } else {
      text.append(kReplacementCharacter);
      earlier_characters_ += i + unit.bytes <= earlier ? 1U : 0U;
    }
    i += unit.bytes;
  }
  return text;
}

// What came before such a token changes nothing behind it: it cannot complete a character.
bool IncrementalDecoder::begins_character(TokenId id) const {
  if (options_.skip_special && tokenizer_->is_special(id)) {
    return false;
  }
  const std::string_view token = tokenizer_->token_bytes(id);
  return !token.empty() && (static_cast<unsigned char>(token.front()) & 0xC0U) != 0x80U;
}

void IncrementalDecoder::skip(std::span<const TokenId> ids) {
  std::size_t first = 0;
  if (begun_ || options_.continues || !tokenizer_->strips_first_space()) {
    first = ids.size();
    while (first > 0 && (first == ids.size() || !begins_character(ids[first]))) {
      --first;
    }
  }
  for (const TokenId id : ids.subspan(first)) {
    static_cast<void>(push(id));
  }
}

std::string IncrementalDecoder::finish() {
  const bool unfinished = pending_bytes_ > 0;
  pending_bytes_ = 0;
  begun_ = false;
  return unfinished ? std::string(kReplacementCharacter) : std::string();
}

}  // namespace phalanx::tokenizer
