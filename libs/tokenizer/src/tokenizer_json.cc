// SPDX-License-Identifier: Apache-2.0
#include "tokenizer_json.h"

#include <simdjson.h>

#include <map>
#include <string>
#include <utility>

#include "components.h"
#include "load_steps.h"
#include "pre_tokenizer_json.h"

namespace phalanx::tokenizer {
namespace {

constexpr std::size_t kMaxSequence = 16;
constexpr std::size_t kMaxTemplatePieces = 16;

// The fields of tokenizer.json as JSON text.
using Sections = std::map<std::string, std::string, std::less<>>;

Result<Sections> split_sections(std::string_view json) {
  const simdjson::padded_string padded(json);
  simdjson::ondemand::parser parser;
  Sections sections;
  const auto malformed = [](simdjson::error_code code) {
    return invalid_argument("expected JSON: " + std::string(simdjson::error_message(code)));
  };
  simdjson::ondemand::document document;
  simdjson::ondemand::object object;
  if (const auto error = parser.iterate(padded).get(document)) {
    return malformed(error);
  }
  if (const auto error = document.get_object().get(object)) {
    return malformed(error);
  }
  for (auto entry : object) {
    simdjson::ondemand::field field;
    std::string_view name;
    std::string_view text;
    if (const auto error = std::move(entry).get(field)) {
      return malformed(error);
    }
    if (const auto error = field.unescaped_key().get(name)) {
      return malformed(error);
    }
    std::string key(name);
    if (const auto error = simdjson::to_json_string(field.value()).get(text)) {
      return malformed(error);
    }
    if (!sections.emplace(key, text).second) {
      return invalid_argument("field \"" + key + "\" stands twice");
    }
  }
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
    return invalid_argument("expected one JSON object, found more behind it");
  }
  return sections;
}

// Calls `visit` for a component or, if it is a Sequence, for its members.
template <typename Visit>
Status for_each_component(const Json& component, const char* members, const Visit& visit) {
  if (component.is_null()) {
    return ok();
  }
  PHALANX_TRY(const std::string type, component_type(component));
  if (type != "Sequence") {
    return visit(component, type);
  }
  PHALANX_RETURN_IF_ERROR(refuse_unknown_fields(component, {"type", members}));
  const Json::Array* const list = array_field(component, members, kMaxSequence);
  if (list == nullptr) {
    return expected("an array of at most " + std::to_string(kMaxSequence) + " " + members,
                    component);
  }
  for (const Json& member : *list) {
    PHALANX_TRY(const std::string member_type, component_type(member));
    PHALANX_RETURN_IF_ERROR(visit(member, member_type));
  }
  return ok();
}

// What the components say about the vocabulary; they must agree.
struct Shape {
  bool splits_bytes = false;      // the pre-tokenizer is byte-level
  bool decodes_bytes = false;     // the decoder is
  bool decodes_fallback = false;  // "<0x0A>"
  bool decodes_marks = false;     // U+2581
};

Status read_replace(const Json& member, std::string_view from, std::string_view to) {
  PHALANX_RETURN_IF_ERROR(refuse_unknown_fields(member, {"type", "pattern", "content"}));
  PHALANX_TRY(const std::string content, string_field(member, "content", ""));
  const Json* const pattern = member.find("pattern");
  const Json::Object* const object = pattern == nullptr ? nullptr : pattern->as_object();
  const bool is_from = object != nullptr && object->size() == 1 &&
                       string_field(*pattern, "String", "").value_or("") == from;
  return is_from && content == to
             ? ok()
             : Status(unimplemented("Replace is supported only of \"" + std::string(from) +
                                    "\" by \"" + std::string(to) + "\""));
}

Status read_normalizer(const Json& component, Tokenizer::Data& data) {
  return for_each_component(
      component, "normalizers", [&](const Json& member, const std::string& type) -> Status {
        if (type == "NFC") {
          data.normalizer.nfc = true;
          return refuse_unknown_fields(member, {"type"});
        }
        if (type == "Prepend") {
          data.normalizer.prepend_space = true;
          PHALANX_TRY(const std::string prefix, string_field(member, "prepend", ""));
          return prefix == kSpaceMark ? refuse_unknown_fields(member, {"type", "prepend"})
                                      : Status(unimplemented("Prepend is supported only of \"" +
                                                             std::string(kSpaceMark) + "\""));
        }
        if (type == "Replace") {
          data.normalizer.space_marks = true;
          return read_replace(member, " ", kSpaceMark);
        }
        return unimplemented("\"" + type +
                             "\" is not supported; supported: NFC, Prepend, Replace or none");
      });
}

Status read_strip(const Json& member, Tokenizer::Data& data) {
  PHALANX_RETURN_IF_ERROR(refuse_unknown_fields(member, {"type", "content", "start", "stop"}));
  PHALANX_TRY(const std::string content, string_field(member, "content", ""));
  const auto is_number = [&](std::string_view name, std::int64_t wanted) {
    const Json* const field = member.find(name);
    return field != nullptr && field->as_int() != nullptr && *field->as_int() == wanted;
  };
  data.strip_first_space = true;
  return content == " " && is_number("start", 1) && is_number("stop", 0)
             ? ok()
             : Status(unimplemented("Strip is supported only of one space at the start"));
}

Status read_decoder(const Json& component, Tokenizer::Data& data, Shape& shape) {
  return for_each_component(
      component, "decoders", [&](const Json& member, const std::string& type) -> Status {
        if (type == "ByteLevel") {
          shape.decodes_bytes = true;
          return refuse_unknown_fields(member,
                                       {"type", "add_prefix_space", "trim_offsets", "use_regex"});
        }
        if (type == "Replace") {
          shape.decodes_marks = true;
          return read_replace(member, kSpaceMark, " ");
        }
        if (type == "Strip") {
          return read_strip(member, data);
        }
        shape.decodes_fallback = shape.decodes_fallback || type == "ByteFallback";
        // Fuse joins what is joined here anyway.
        return type == "ByteFallback" || type == "Fuse"
                   ? refuse_unknown_fields(member, {"type"})
                   : Status(unimplemented("\"" + type +
                                          "\" is not supported; supported: ByteLevel, or Replace, "
                                          "ByteFallback, Fuse and Strip"));
      });
}

Status append_template_ids(const Json& piece,
                           const Json& special_tokens,
                           std::vector<TokenId>& out) {
  PHALANX_TRY(const std::string name, string_field(piece, "id", ""));
  const Json* const token = special_tokens.find(name);
  const Json::Array* const ids =
      token == nullptr ? nullptr : array_field(*token, "ids", kMaxTemplatePieces);
  if (ids == nullptr) {
    return expected("the ids of \"" + name + "\"", special_tokens).with("special_tokens");
  }
  for (const Json& entry : *ids) {
    auto id = token_id_of(&entry, "a token id", entry);
    if (!id) {
      return std::move(id).error().with("special_tokens");
    }
    out.push_back(*id);
  }
  return ok();
}

Status read_template_processing(const Json& component, Tokenizer::Data& data) {
  PHALANX_RETURN_IF_ERROR(
      refuse_unknown_fields(component, {"type", "single", "pair", "special_tokens"}));
  const Json none{Json::Data(Json::Object{})};
  const Json* const given = component.find("special_tokens");
  const Json& special_tokens = given == nullptr ? none : *given;
  const Json::Array* const single = array_field(component, "single", kMaxTemplatePieces);
  if (single == nullptr || special_tokens.as_object() == nullptr) {
    return expected("a template of special tokens and one sequence", component);
  }
  bool seen_sequence = false;
  for (const Json& piece : *single) {
    const Json* const token = piece.find("SpecialToken");
    if (piece.find("Sequence") != nullptr && !seen_sequence) {
      seen_sequence = true;
    } else if (token != nullptr) {
      PHALANX_RETURN_IF_ERROR(append_template_ids(
          *token, special_tokens, seen_sequence ? data.suffix_ids : data.prefix_ids));
    } else {
      return expected("a special token or one sequence", piece).with("single");
    }
  }
  return seen_sequence ? ok() : Status(expected("a sequence", component).with("single"));
}

Status read_post_processor(const Json& component, Tokenizer::Data& data) {
  bool has_template = false;
  return for_each_component(
      component, "processors", [&](const Json& member, const std::string& type) -> Status {
        if (type == "ByteLevel") {  // only trims offsets, which are not computed here
          return refuse_unknown_fields(member,
                                       {"type", "add_prefix_space", "trim_offsets", "use_regex"});
        }
        if (type == "TemplateProcessing" && !has_template) {
          has_template = true;
          return read_template_processing(member, data);
        }
        return unimplemented("\"" + type +
                             "\" is not supported; supported: ByteLevel and one "
                             "TemplateProcessing");
      });
}

Status read_added_tokens(const Json& list, std::vector<AddedToken>& added) {
  if (list.is_null()) {
    return ok();
  }
  const Json::Array* const tokens = list.as_array();
  if (tokens == nullptr || tokens->size() > kMaxAddedTokens) {
    return expected("an array of at most " + std::to_string(kMaxAddedTokens) + " tokens", list);
  }
  const std::string what = "a token with an id from 0 to " + std::to_string(kMaxTokenId);
  for (const Json& entry : *tokens) {
    PHALANX_TRY(const TokenId id, token_id_of(entry.find("id"), what, entry));
    PHALANX_TRY(AddedToken token, read_added_token(entry, id));
    added.push_back(std::move(token));
  }
  return ok();
}

Status read_section(std::string_view name,
                    std::string_view text,
                    Tokenizer::Data& data,
                    Shape& shape,
                    std::vector<AddedToken>& added) {
  if (name == "version" || name == "model" || name == "truncation" || name == "padding") {
    // A server neither cuts nor pads a prompt, and nobody applies these two on their own.
    return ok();
  }
  PHALANX_TRY(const Json section, parse_json(text, "value"));
  if (name == "normalizer") {
    return read_normalizer(section, data);
  }
  if (name == "pre_tokenizer") {
    PHALANX_TRY(PreTokenizerFile file, read_pre_tokenizer(section));
    data.pre_tokenizer = std::move(file.pre_tokenizer);
    data.metaspace = file.metaspace;
    shape.splits_bytes = file.byte_level;
    return ok();
  }
  if (name == "post_processor") {
    return read_post_processor(section, data);
  }
  if (name == "decoder") {
    return read_decoder(section, data, shape);
  }
  if (name == "added_tokens") {
    return read_added_tokens(section, added);
  }
  return unimplemented("this field is not supported");
}

// How the vocabulary is spelled, from what is done with text before and after.
Result<Spelling> spelling_of(const Tokenizer::Data& data, const Shape& shape) {
  const bool marks = data.has_space_marks();
  if (shape.splits_bytes != shape.decodes_bytes || (shape.splits_bytes && marks)) {
    return unimplemented(
        "pre_tokenizer and decoder: expected both or neither to be ByteLevel, and then no "
        "Replace and no Metaspace");
  }
  if (marks != shape.decodes_marks || (data.normalizer.prepend_space && !marks)) {
    return unimplemented("normalizer and decoder: expected both or neither to replace \"" +
                         std::string(kSpaceMark) + "\"");
  }
  return shape.splits_bytes ? Spelling::kByteLevel
         : marks            ? Spelling::kSpaceMarks
                            : Spelling::kAsGiven;
}

}  // namespace

Status insert_added_token(AddedToken& token, Tokenizer::Data& data) {
  PHALANX_RETURN_IF_ERROR(
      data.vocabulary.insert_added(token.id, data.stored(token.content), token.special));
  token.special = data.vocabulary.kind(token.id) == Vocabulary::Kind::kSpecial;
  return ok();
}

Status finish_vocabulary(VocabularyFile& file, Tokenizer::Data& data) {
  // Ordinary text must not become a special token, be it the one for what is unknown.
  if (file.options.unknown.has_value() &&
      data.vocabulary.kind(*file.options.unknown) == Vocabulary::Kind::kSpecial) {
    file.options.unknown.reset();
  }
  if (file.options.characters && file.cuts_at_spaces()) {
    PHALANX_TRY(Regex pattern, Regex::compile(" +[^ ]*|[^ ]+"));
    data.pre_tokenizer.add_stage(
        std::move(pattern), PreTokenizer::Behavior::kIsolated, /*inverted=*/false);
  }
  PHALANX_TRY(data.bpe, Bpe::create(data.vocabulary, file.merges, file.options));
  return ok();
}

Status read_tokenizer_json(std::string_view json,
                           Tokenizer::Data& data,
                           std::vector<AddedToken>& added) {
  PHALANX_TRY(const Sections sections, split_sections(json));
  for (const auto* required : {"model", "pre_tokenizer", "decoder"}) {
    if (!sections.contains(std::string_view(required))) {
      return invalid_argument("expected a field \"" + std::string(required) + "\", found none");
    }
  }
  Shape shape;
  for (const auto& [name, text] : sections) {
    if (Status status = read_section(name, text, data, shape, added); !status) {
      return std::move(status).error().with(name);
    }
  }
  leave_out_beyond_model(data, added);
  PHALANX_TRY(const Spelling spelling, spelling_of(data, shape));
  VocabularyFile file(data.vocabulary);
  if (Status status = read_bpe_model(sections.find("model")->second, spelling, file); !status) {
    return std::move(status).error().with("model");
  }
  if (file.options.byte_fallback.has_value() && !shape.decodes_fallback) {
    return invalid_argument("decoder: expected ByteFallback, as the model has it, found none");
  }
  if (spelling == Spelling::kByteLevel) {
    file.vocabulary.use_byte_alphabet();
  }
  for (AddedToken& token : added) {
    if (Status status = insert_added_token(token, data); !status) {
      return std::move(status).error().with("added_tokens");
    }
  }
  return finish_vocabulary(file, data);
}

}  // namespace phalanx::tokenizer
