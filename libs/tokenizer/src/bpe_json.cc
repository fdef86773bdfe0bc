// SPDX-License-Identifier: Apache-2.0
#include <simdjson.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "byte_alphabet.h"
#include "tokenizer_json.h"

namespace phalanx::tokenizer {
namespace {

namespace ondemand = simdjson::ondemand;

// Bytes of JSON that one entry of the vocabulary takes at least, on average: room is reserved for
// no more entries than the file can hold.
constexpr std::size_t kJsonBytesPerToken = 16;

Error malformed(simdjson::error_code code) {
  return invalid_argument("expected JSON: " + std::string(simdjson::error_message(code)));
}

#define PHALANX_TOKENIZER_GET(declaration, target, expression)            \
  declaration;                                                            \
  if (const simdjson::error_code json_error = (expression).get(target)) { \
    return malformed(json_error);                                         \
  }

Status read_vocabulary(std::string_view json, Vocabulary& vocabulary) {
  const simdjson::padded_string padded(json);
  ondemand::parser parser;
  PHALANX_TOKENIZER_GET(ondemand::document document, document, parser.iterate(padded))
  PHALANX_TOKENIZER_GET(ondemand::object object, object, document.get_object())
  vocabulary.reserve(json.size() / kJsonBytesPerToken + 1);
  for (auto entry : object) {
    PHALANX_TOKENIZER_GET(ondemand::field field, field, std::move(entry))
    PHALANX_TOKENIZER_GET(std::string_view spelling, spelling, field.unescaped_key())
    PHALANX_TOKENIZER_GET(std::int64_t id, id, field.value().get_int64())
    if (id < 0 || id > kMaxTokenId) {
      return invalid_argument("token \"" + std::string(spelling) + "\": expected an id from 0 to " +
                              std::to_string(kMaxTokenId) + ", found " + std::to_string(id));
    }
    if (spelling.empty()) {
      return invalid_argument("id " + std::to_string(id) + ": expected a token, found \"\"");
    }
    // A token with a character outside the byte alphabet stands for its own text. It is not
    // findable: no text leads to it and it could hide the token that is spelled properly.
    const std::optional<std::string> bytes = bytes_of_spelling(spelling);
    PHALANX_RETURN_IF_ERROR(vocabulary.insert(
        static_cast<TokenId>(id), bytes.has_value() ? *bytes : spelling, bytes.has_value()));
  }
  return ok();
}

Result<TokenId> merge_side(std::string_view spelling, const Vocabulary& vocabulary) {
  const std::optional<std::string> bytes = bytes_of_spelling(spelling);
  const std::optional<TokenId> id = bytes.has_value() ? vocabulary.find(*bytes) : std::nullopt;
  if (!id.has_value()) {
    return invalid_argument("\"" + std::string(spelling) + "\" is not in the vocabulary");
  }
  return *id;
}

Result<Bpe::Merge> make_merge(std::string_view left,
                              std::string_view right,
                              std::size_t rank,
                              const Vocabulary& vocabulary) {
  PHALANX_TRY(const TokenId left_id, merge_side(left, vocabulary));
  PHALANX_TRY(const TokenId right_id, merge_side(right, vocabulary));
  std::string bytes(vocabulary.bytes(left_id));
  bytes.append(vocabulary.bytes(right_id));
  const std::optional<TokenId> merged = vocabulary.find(bytes);
  if (!merged.has_value()) {
    return invalid_argument("the result of \"" + std::string(left) + "\" and \"" +
                            std::string(right) + "\" is not in the vocabulary");
  }
  return Bpe::Merge{left_id, right_id, *merged, static_cast<std::uint32_t>(rank)};
}

using MergeText = std::pair<std::string_view, std::string_view>;

// "left right"
Result<MergeText> split_merge(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
    return invalid_argument("expected two tokens with a space between, found \"" +
                            std::string(text) + "\"");
  }
  return MergeText(text.substr(0, space), text.substr(space + 1));
}

// ["left", "right"]
Result<MergeText> read_pair(ondemand::array pair) {
  std::array<std::string_view, 2> sides;
  std::size_t count = 0;
  for (auto element : pair) {
    if (count == sides.size()) {
      return invalid_argument("expected two tokens, found more");
    }
    PHALANX_TOKENIZER_GET(std::string_view side, side, element.get_string())
    sides[count++] = side;
  }
  if (count != sides.size()) {
    return invalid_argument("expected two tokens, found " + std::to_string(count));
  }
  return MergeText(sides[0], sides[1]);
}

Result<MergeText> read_merge(ondemand::value value) {
  PHALANX_TOKENIZER_GET(ondemand::json_type type, type, value.type())
  if (type == ondemand::json_type::array) {
    PHALANX_TOKENIZER_GET(ondemand::array pair, pair, value.get_array())
    return read_pair(pair);
  }
  PHALANX_TOKENIZER_GET(std::string_view text, text, value.get_string())
  return split_merge(text);
}

Result<std::vector<Bpe::Merge>> read_merges(std::string_view json, const Vocabulary& vocabulary) {
  const simdjson::padded_string padded(json);
  ondemand::parser parser;
  PHALANX_TOKENIZER_GET(ondemand::document document, document, parser.iterate(padded))
  PHALANX_TOKENIZER_GET(ondemand::array array, array, document.get_array())
  std::vector<Bpe::Merge> merges;
  for (auto element : array) {
    const std::string place = "number " + std::to_string(merges.size());
    PHALANX_TOKENIZER_GET(ondemand::value value, value, std::move(element))
    const Result<MergeText> text = read_merge(value);
    if (!text) {
      return Error(text.error()).with(place);
    }
    Result<Bpe::Merge> merge = make_merge(text->first, text->second, merges.size(), vocabulary);
    if (!merge) {
      return std::move(merge).error().with(place);
    }
    merges.push_back(*merge);
  }
  return merges;
}

// The fields of the model that are neither vocabulary nor merges: name, value as JSON text.
Status read_option(std::string_view name, std::string_view json, BpeFile& file) {
  const bool is_empty = json == "null" || json == "\"\"" || json == "false";
  if (name == "type") {
    return json == "\"BPE\"" ? ok()
                             : Status(unimplemented("type " + std::string(json) +
                                                    " is not supported; supported: \"BPE\""));
  }
  if (name == "ignore_merges") {
    if (!is_empty && json != "true") {
      return invalid_argument("ignore_merges: expected true or false, found " + std::string(json));
    }
    file.ignore_merges = json == "true";
    return ok();
  }
  // Every byte has a token, so nothing is ever unknown and these two have no effect.
  if (name == "unk_token" || name == "fuse_unk") {
    return ok();
  }
  if (name == "dropout") {
    return is_empty || json == "0.0" || json == "0"
               ? ok()
               : Status(unimplemented("dropout " + std::string(json) + " is not supported"));
  }
  if (name == "continuing_subword_prefix" || name == "end_of_word_suffix" ||
      name == "byte_fallback") {
    return is_empty ? ok()
                    : Status(unimplemented(std::string(name) + " " + std::string(json) +
                                           " is not supported"));
  }
  return unimplemented("field \"" + std::string(name) + "\" is not supported");
}

std::string_view trimmed(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

}  // namespace

Result<BpeFile> read_bpe_model(std::string_view model_json, Vocabulary& vocabulary) {
  const simdjson::padded_string padded(model_json);
  ondemand::parser parser;
  PHALANX_TOKENIZER_GET(ondemand::document document, document, parser.iterate(padded))
  PHALANX_TOKENIZER_GET(ondemand::object object, object, document.get_object())
  BpeFile file;
  std::string_view vocabulary_json;
  std::string_view merges_json;
  for (auto entry : object) {
    PHALANX_TOKENIZER_GET(ondemand::field field, field, std::move(entry))
    PHALANX_TOKENIZER_GET(std::string_view key, key, field.unescaped_key())
    const std::string name(key);
    PHALANX_TOKENIZER_GET(std::string_view json, json, simdjson::to_json_string(field.value()))
    if (name == "vocab") {
      vocabulary_json = json;
    } else if (name == "merges") {
      merges_json = json;
    } else {
      PHALANX_RETURN_IF_ERROR(read_option(name, trimmed(json), file));
    }
  }
  if (vocabulary_json.empty() || merges_json.empty()) {
    return invalid_argument("expected vocab and merges, found none");
  }
  if (Status status = read_vocabulary(vocabulary_json, vocabulary); !status) {
    return std::move(status).error().with("vocab");
  }
  Result<std::vector<Bpe::Merge>> merges = read_merges(merges_json, vocabulary);
  if (!merges) {
    return std::move(merges).error().with("merges");
  }
  file.merges = *std::move(merges);
  return file;
}

#undef PHALANX_TOKENIZER_GET

}  // namespace phalanx::tokenizer
