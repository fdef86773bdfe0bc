// SPDX-License-Identifier: Apache-2.0
#include <simdjson.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "components.h"
#include "tokenizer_json.h"
#include "vocabulary_file.h"

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

Status read_vocabulary(std::string_view json, Spelling spelling_of, VocabularyFile& file) {
  const simdjson::padded_string padded(json);
  ondemand::parser parser;
  PHALANX_TOKENIZER_GET(ondemand::document document, document, parser.iterate(padded))
  PHALANX_TOKENIZER_GET(ondemand::object object, object, document.get_object())
  file.vocabulary.reserve(json.size() / kJsonBytesPerToken + 1);
  for (auto entry : object) {
    PHALANX_TOKENIZER_GET(ondemand::field field, field, std::move(entry))
    PHALANX_TOKENIZER_GET(std::string_view spelling, spelling, field.unescaped_key())
    PHALANX_TOKENIZER_GET(std::int64_t id, id, field.value().get_int64())
    PHALANX_RETURN_IF_ERROR(file.add(id, spelling, spelling_of));
  }
  return ok();
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

Status read_merges(std::string_view json, Spelling spelling, VocabularyFile& file) {
  const simdjson::padded_string padded(json);
  ondemand::parser parser;
  PHALANX_TOKENIZER_GET(ondemand::document document, document, parser.iterate(padded))
  PHALANX_TOKENIZER_GET(ondemand::array array, array, document.get_array())
  for (auto element : array) {
    const std::string place = "number " + std::to_string(file.merges.size());
    PHALANX_TOKENIZER_GET(ondemand::value value, value, element)
    const Result<MergeText> text = read_merge(value);
    if (!text) {
      return Error(text.error()).with(place);
    }
    if (Status status = file.add_merge(*text, spelling); !status) {
      return std::move(status).error().with(place);
    }
  }
  return ok();
}

// The fields of the model that are neither vocabulary nor merges.
struct Options {
  bool ignore_merges = false;
  bool fuse_unknown = false;
  bool byte_fallback = false;
  std::string unknown;  // its spelling
};

Status read_flag(std::string_view name, std::string_view json, bool& flag) {
  if (json != "true" && json != "false" && json != "null") {
    return invalid_argument(std::string(name) + ": expected true or false, found " +
                            std::string(json));
  }
  flag = json == "true";
  return ok();
}

Status check_type(std::string_view json) {
  return json == "\"BPE\"" ? ok()
                           : Status(unimplemented("type " + std::string(json) +
                                                  " is not supported; supported: \"BPE\""));
}

Status refuse_unless(bool supported, std::string_view name, std::string_view json) {
  return supported ? ok()
                   : Status(unimplemented(std::string(name) + " " + std::string(json) +
                                          " is not supported"));
}

Status read_option(std::string_view name, std::string_view json, Options& options) {
  const bool is_empty = json == "null" || json == "\"\"" || json == "false";
  if (name == "type") {
    return check_type(json);
  }
  if (name == "ignore_merges") {
    return read_flag(name, json, options.ignore_merges);
  }
  if (name == "fuse_unk") {
    return read_flag(name, json, options.fuse_unknown);
  }
  if (name == "byte_fallback") {
    return read_flag(name, json, options.byte_fallback);
  }
  if (name == "unk_token") {
    PHALANX_TRY(const Json value, parse_json(json, name));
    if (!value.is_null() && value.as_string() == nullptr) {
      return expected("a string", value).with("unk_token");
    }
    options.unknown = value.is_null() ? "" : *value.as_string();
    return ok();
  }
  if (name == "dropout") {
    return refuse_unless(is_empty || json == "0.0" || json == "0", name, json);
  }
  if (name == "continuing_subword_prefix" || name == "end_of_word_suffix") {
    return refuse_unless(is_empty, name, json);
  }
  return unimplemented("field \"" + std::string(name) + "\" is not supported");
}

Status apply(const Options& options, Spelling spelling, VocabularyFile& file) {
  file.options.ignore_merges = options.ignore_merges;
  file.options.fuse_unknown = options.fuse_unknown;
  file.options.characters = spelling != Spelling::kByteLevel;
  if (!options.unknown.empty()) {
    file.options.unknown = file.vocabulary.find(options.unknown);
  }
  if (!options.byte_fallback) {
    return ok();
  }
  if (!file.options.characters) {
    return unimplemented("byte_fallback true together with ByteLevel is not supported");
  }
  return file.use_byte_fallback();
}

std::string_view trimmed(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

}  // namespace

Status read_bpe_model(std::string_view model_json, Spelling spelling, VocabularyFile& file) {
  const simdjson::padded_string padded(model_json);
  ondemand::parser parser;
  PHALANX_TOKENIZER_GET(ondemand::document document, document, parser.iterate(padded))
  PHALANX_TOKENIZER_GET(ondemand::object object, object, document.get_object())
  Options options;
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
      PHALANX_RETURN_IF_ERROR(read_option(name, trimmed(json), options));
    }
  }
  if (vocabulary_json.empty() || merges_json.empty()) {
    return invalid_argument("expected vocab and merges, found none");
  }
  if (Status status = read_vocabulary(vocabulary_json, spelling, file); !status) {
    return std::move(status).error().with("vocab");
  }
  if (Status status = read_merges(merges_json, spelling, file); !status) {
    return std::move(status).error().with("merges");
  }
  return apply(options, spelling, file);
}

#undef PHALANX_TOKENIZER_GET

}  // namespace phalanx::tokenizer
