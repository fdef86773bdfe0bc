// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tokenizer/tokenizer.h"

#include <utility>

#include "phalanx/base/utf8.h"

#include "regular_expression.h"
#include "tokenizer_data.h"

namespace phalanx::tokenizer {
namespace {

// Offsets inside one text fit 32 bits with room to spare.
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

// CPU time that splitting a text may take: several times what the slowest text of honest patterns
// needs.
constexpr Duration kMatchTimeBase = std::chrono::seconds(1);
constexpr Duration kMatchTimePerByte = std::chrono::microseconds(1);

// One text on its way to tokens.
class Encoding {
 public:
  explicit Encoding(const Tokenizer::Data& data) : data_(data) {}

  // Tokens that are for templates only are not recognised where they overlap `opaque`.
  Result<std::vector<TokenId>> run(std::string_view text, const ByteRanges& opaque) {
    if (text.size() > kMaxTextBytes) {
      return resource_exhausted("text: expected at most " + std::to_string(kMaxTextBytes) +
                                " bytes, found " + std::to_string(text.size()));
    }
    MatchTime time(kMatchTimeBase + kMatchTimePerByte * static_cast<std::int64_t>(text.size()));
    ids_.reserve(text.size() / 4 + 8);
    for (const TextPart& part : data_.added_as_given.split(text, opaque)) {
      if (part.token.has_value()) {
        ids_.push_back(*part.token);
      } else {
        PHALANX_RETURN_IF_ERROR(normalize(text, part.range, opaque));
      }
    }
    return std::move(ids_);
  }

 private:
  Status normalize(std::string_view text, ByteRange range, const ByteRanges& opaque) {
    at_start_ = range.begin == 0;
    const std::string_view part = text.substr(range.begin, range.size());
    if (data_.normalizer.keeps(part)) {
      return split_normalized(part, opaque.within(range));
    }
    const NormalizedText normalized = data_.normalizer.apply(part, opaque, range.begin);
    return split_normalized(normalized.text, normalized.marked);
  }

  Status split_normalized(std::string_view text, const ByteRanges& opaque) {
    if (data_.added_normalized.empty()) {
      return mark_spaces(text);
    }
    const Spaces spaces = data_.normalizer.space_marks ? Spaces::kMarks : Spaces::kWhite;
    for (const TextPart& part : data_.added_normalized.split(text, opaque, spaces)) {
      if (part.token.has_value()) {
        ids_.push_back(*part.token);
      } else {
        PHALANX_RETURN_IF_ERROR(mark_spaces(text.substr(part.range.begin, part.range.size())));
      }
      at_start_ = false;
    }
    return ok();
  }

  Status mark_spaces(std::string_view text) {
    if (!data_.metaspace.has_value()) {
      return encode_text(text);
    }
    std::string changed = without_space_marks(text);
    const Metaspace::Prepend prepend = data_.metaspace->prepend;
    if (!changed.starts_with(' ') && (prepend == Metaspace::Prepend::kAlways ||
                                      (prepend == Metaspace::Prepend::kFirst && at_start_))) {
      changed.insert(changed.begin(), ' ');
    }
    return encode_text(changed);
  }

  Status encode_text(std::string_view text) {
    PreTokenizer::Pieces pieces;
    PHALANX_RETURN_IF_ERROR(data_.pre_tokenizer.split(text, pieces));
    for (const ByteRange piece : pieces.ranges) {
      data_.bpe->encode_piece(pieces.text.substr(piece.begin, piece.size()), ids_);
    }
    return ok();
  }

  const Tokenizer::Data& data_;
  bool at_start_ = true;  // nothing of the text comes before what is being encoded
  std::vector<TokenId> ids_;
};

std::optional<TokenId> id_of_role(std::span<const NamedToken> tokens, std::string_view name) {
  for (const NamedToken& token : tokens) {
    if (token.name == name) {
      return token.id;
    }
  }
  return std::nullopt;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Data> data) : data_(std::move(data)) {}
Tokenizer::~Tokenizer() = default;

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    append_replacing(text, repaired);
    text = repaired;
  }
  ByteRanges opaque;
  if (!options.parse_special) {
    opaque.append({0, text.size()});
  }
  PHALANX_TRY(std::vector<TokenId> ids, Encoding(*data_).run(text, opaque));
  if (options.add_special_tokens) {
    ids.insert(ids.begin(), data_->prefix_ids.begin(), data_->prefix_ids.end());
    ids.insert(ids.end(), data_->suffix_ids.begin(), data_->suffix_ids.end());
  }
  return ids;
}

Result<std::vector<TokenId>> Tokenizer::encode_segments(
    std::span<const TextSegment> segments) const {
  std::string text;
  ByteRanges opaque;
  for (const TextSegment& segment : segments) {
    const std::size_t begin = text.size();
    // Each on its own, so that a broken end never takes bytes of the next segment with it.
    append_replacing(segment.text, text);
    if (segment.is_user_data) {
      opaque.append({begin, text.size()});
    }
  }
  return Encoding(*data_).run(text, opaque);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, DecodeOptions options) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (!options.skip_special || !is_special(id)) {
      bytes.append(token_bytes(id));
    }
  }
  if (strips_first_space() && !options.continues && bytes.starts_with(' ')) {
    bytes.erase(0, 1);
  }
  if (is_valid_utf8(bytes)) {
    return bytes;
  }
  std::string text;
  append_replacing(bytes, text);
  return text;
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  return data_->vocabulary.bytes(id);
}

std::string Tokenizer::token_text(TokenId id) const {
  std::string text;
  append_replacing(token_bytes(id), text);
  return text;
}

std::optional<TokenId> Tokenizer::id_of(std::string_view bytes) const {
  return data_->vocabulary.find(bytes);
}

bool Tokenizer::contains(TokenId id) const {
  return data_->vocabulary.kind(id) != Vocabulary::Kind::kAbsent;
}

bool Tokenizer::is_special(TokenId id) const {
  return data_->vocabulary.kind(id) == Vocabulary::Kind::kSpecial;
}

std::size_t Tokenizer::vocab_size() const {
  return data_->vocabulary.size();
}

const std::vector<std::string>& Tokenizer::left_out() const {
  return data_->left_out;
}

std::optional<TokenId> Tokenizer::bos_id() const {
  return id_of_role(data_->named_tokens, "bos_token");
}

std::optional<TokenId> Tokenizer::eos_id() const {
  return id_of_role(data_->named_tokens, "eos_token");
}

std::optional<TokenId> Tokenizer::pad_id() const {
  return id_of_role(data_->named_tokens, "pad_token");
}

bool Tokenizer::strips_first_space() const {
  return data_->strip_first_space;
}

std::span<const NamedToken> Tokenizer::named_tokens() const {
  return data_->named_tokens;
}

const std::string& Tokenizer::chat_template() const {
  return data_->templates.chat;
}

const std::string& Tokenizer::tool_use_template() const {
  return data_->templates.tool_use;
}

}  // namespace phalanx::tokenizer
