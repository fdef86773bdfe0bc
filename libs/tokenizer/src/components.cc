// SPDX-License-Identifier: Apache-2.0
#include "components.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/utf8.h"
#include "phalanx/json/fields.h"
#include "phalanx/json/writer.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx::tokenizer {
namespace {

constexpr std::size_t kShownBytes = 60;

}  // namespace

Error expected(std::string_view what, const Json& found) {
  json::Writer writer;
  writer.value(found);
  std::string shown = writer.take();
  if (shown.size() > kShownBytes) {
    shown = std::string(utf8_prefix(shown, kShownBytes)) + "…";
  }
  return invalid_argument("expected " + std::string(what) + ", found " + shown);
}

Result<Json> parse_json(std::string_view text, std::string_view what) {
  auto value = json::parse(text);
  if (!value) {
    return std::move(value).error().with(what);
  }
  return value;
}

Result<bool> bool_field(const Json& object, std::string_view name, bool fallback) {
  const json::Fields fields(object, "");
  return fields.has(name) ? fields.boolean(name) : Result<bool>(fallback);
}

Result<std::string> string_field(const Json& object,
                                 std::string_view name,
                                 std::string_view fallback) {
  const json::Fields fields(object, "");
  if (!fields.has(name)) {
    return std::string(fallback);
  }
  PHALANX_TRY(const std::string_view text, fields.text(name));
  return std::string(text);
}

const Json::Array* array_field(const Json& object, std::string_view name, std::size_t most) {
  const Json* const field = object.find(name);
  const Json::Array* const array = field == nullptr ? nullptr : field->as_array();
  return array == nullptr || array->size() > most ? nullptr : array;
}

Status refuse_unknown_fields(const Json& object, std::initializer_list<std::string_view> known) {
  if (object.as_object() == nullptr) {
    return expected("an object", object);
  }
  for (const auto& [name, value] : *object.as_object()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return unimplemented("field \"" + name + "\" is not supported");
    }
  }
  return ok();
}

Result<std::string> component_type(const Json& component) {
  PHALANX_TRY(std::string type, string_field(component, "type", ""));
  if (type.empty()) {
    return expected("an object with a type", component);
  }
  return type;
}

Result<TokenId> token_id_of(const Json* value, std::string_view what, const Json& shown) {
  const std::int64_t* const id = value == nullptr ? nullptr : value->as_int();
  if (id == nullptr || *id < 0 || *id > std::int64_t{kMaxTokenId}) {
    return expected(what, shown);
  }
  return static_cast<TokenId>(*id);
}

Result<AddedToken> read_added_token(const Json& object, TokenId id) {
  PHALANX_RETURN_IF_ERROR(refuse_unknown_fields(
      object,
      {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"}));
  AddedToken token;
  token.id = id;
  PHALANX_TRY(token.content, string_field(object, "content", ""));
  if (token.content.empty()) {
    return expected("a token with content", object);
  }
  if (token.content.size() > kMaxAddedTokenBytes) {
    return invalid_argument("expected an added token of at most " +
                            std::to_string(kMaxAddedTokenBytes) + " bytes, found " +
                            std::to_string(token.content.size()));
  }
  PHALANX_TRY(token.special, bool_field(object, "special", false));
  PHALANX_TRY(token.normalized, bool_field(object, "normalized", !token.special));
  PHALANX_TRY(token.single_word, bool_field(object, "single_word", false));
  PHALANX_TRY(token.lstrip, bool_field(object, "lstrip", false));
  PHALANX_TRY(token.rstrip, bool_field(object, "rstrip", false));
  return token;
}

}  // namespace phalanx::tokenizer
