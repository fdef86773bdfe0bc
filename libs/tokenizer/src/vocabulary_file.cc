// SPDX-License-Identifier: Apache-2.0
#include "vocabulary_file.h"

#include <algorithm>
#include <charconv>

#include "phalanx/tokenizer/tokenizer.h"

#include "byte_alphabet.h"
#include "normalizer.h"

namespace phalanx::tokenizer {
namespace {

// "<0x0A>"
std::optional<unsigned char> byte_of_spelling(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || !spelling.ends_with('>')) {
    return std::nullopt;
  }
  unsigned value = 0;
  const char* const end = spelling.data() + 5;
  const auto parsed = std::from_chars(spelling.data() + 3, end, value, 16);
  return parsed.ec == std::errc() && parsed.ptr == end
             ? std::optional(static_cast<unsigned char>(value))
             : std::nullopt;
}

// The bytes of a token; nothing if no text leads to it.
std::optional<std::string> bytes_of(std::string_view spelling, Spelling kind) {
  if (kind == Spelling::kByteLevel) {
    return bytes_of_spelling(spelling);
  }
  if (byte_of_spelling(spelling).has_value()) {
    return std::nullopt;
  }
  if (kind == Spelling::kAsGiven) {
    return std::string(spelling);
  }
  // A text has no spaces when such a vocabulary sees it.
  return spelling.find(' ') == std::string_view::npos ? std::optional(without_space_marks(spelling))
                                                      : std::nullopt;
}

std::string shown(std::string_view spelling) {
  constexpr std::size_t kShownBytes = 60;
  return "\"" + std::string(spelling.substr(0, kShownBytes)) +
         (spelling.size() > kShownBytes ? "…\"" : "\"");
}

}  // namespace

Result<MergeText> split_merge(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
    return invalid_argument("expected two tokens with a space between, found " + shown(text));
  }
  return MergeText(text.substr(0, space), text.substr(space + 1));
}

Status VocabularyFile::add(std::int64_t id,
                           std::string_view spelling,
                           Spelling kind,
                           bool reachable) {
  if (id < 0 || id > kMaxTokenId) {
    return invalid_argument("token " + shown(spelling) + ": expected an id from 0 to " +
                            std::to_string(kMaxTokenId) + ", found " + std::to_string(id));
  }
  if (spelling.empty()) {
    return invalid_argument("id " + std::to_string(id) + ": expected a token, found \"\"");
  }
  const auto token = static_cast<TokenId>(id);
  if (const auto byte = byte_of_spelling(spelling); byte && kind != Spelling::kByteLevel) {
    if (byte_tokens[*byte] >= 0) {
      return invalid_argument("token " + shown(spelling) + " stands twice in the vocabulary");
    }
    const char text = static_cast<char>(*byte);
    PHALANX_RETURN_IF_ERROR(vocabulary.insert(token, std::string_view(&text, 1), false));
    byte_tokens[*byte] = token;
    return ok();
  }
  const std::optional<std::string> bytes =
      reachable ? bytes_of(spelling, kind) : std::optional<std::string>();
  return vocabulary.insert(token, bytes.has_value() ? *bytes : spelling, bytes.has_value());
}

Status VocabularyFile::add_merge(const Bpe::Merge& merge) {
  if (merges.size() == Bpe::kMaxRank) {
    return invalid_argument("expected at most " + std::to_string(Bpe::kMaxRank) + " merges");
  }
  merges.push_back(merge);
  return ok();
}

Status VocabularyFile::add_merge(const MergeText& text, Spelling kind) {
  const std::optional<std::string> left = bytes_of(text.first, kind);
  const std::optional<std::string> right = bytes_of(text.second, kind);
  const auto id_of = [this](const std::optional<std::string>& bytes) {
    return bytes.has_value() ? vocabulary.find(*bytes) : std::nullopt;
  };
  const std::optional<TokenId> left_id = id_of(left);
  const std::optional<TokenId> right_id = id_of(right);
  if (!left_id.has_value() || !right_id.has_value()) {
    return invalid_argument(shown(left_id.has_value() ? text.second : text.first) +
                            " is not in the vocabulary");
  }
  const std::optional<TokenId> merged = vocabulary.find(*left + *right);
  if (!merged.has_value()) {
    return invalid_argument("the result of " + shown(text.first) + " and " + shown(text.second) +
                            " is not in the vocabulary");
  }
  return add_merge({*left_id, *right_id, *merged, static_cast<std::uint32_t>(merges.size())});
}

Status VocabularyFile::use_byte_fallback() {
  const auto missing =
      std::find_if(byte_tokens.begin(), byte_tokens.end(), [](TokenId id) { return id < 0; });
  if (missing != byte_tokens.end()) {
    return invalid_argument("byte fallback: expected a token for every byte, found none for byte " +
                            std::to_string(missing - byte_tokens.begin()));
  }
  options.byte_fallback = byte_tokens;
  return ok();
}

bool VocabularyFile::cuts_at_spaces() const {
  if (options.ignore_merges || !vocabulary.find(" ").has_value()) {
    return false;
  }
  return std::none_of(merges.begin(), merges.end(), [this](const Bpe::Merge& merge) {
    const std::string_view bytes = vocabulary.bytes(merge.merged);
    const std::size_t first = std::min(bytes.find_first_not_of(' '), bytes.size());
    return bytes.find(' ', first) != std::string_view::npos;
  });
}

}  // namespace phalanx::tokenizer
