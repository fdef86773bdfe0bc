// SPDX-License-Identifier: Apache-2.0
#include "json_fields.h"

#include <algorithm>

namespace phalanx::tokenizer {
namespace {

constexpr std::size_t kShownBytes = 60;

}  // namespace

Error expected(std::string_view what, const Json& found) {
  std::string shown = found.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (shown.size() > kShownBytes) {
    shown = shown.substr(0, kShownBytes) + "…";
  }
  return invalid_argument("expected " + std::string(what) + ", found " + shown);
}

Result<Json> parse_json(std::string_view text, std::string_view what) {
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return invalid_argument(std::string(what) + ": expected JSON, found something else");
  }
  return value;
}

Result<bool> bool_field(const Json& object, const char* name, bool fallback) {
  const auto field = object.find(name);
  if (field == object.end() || field->is_null()) {
    return fallback;
  }
  if (!field->is_boolean()) {
    return expected("true or false", *field).with(name);
  }
  return field->get<bool>();
}

Result<std::string> string_field(const Json& object, const char* name, std::string_view fallback) {
  const auto field = object.find(name);
  if (field == object.end() || field->is_null()) {
    return std::string(fallback);
  }
  if (!field->is_string()) {
    return expected("a string", *field).with(name);
  }
  return field->get<std::string>();
}

Status refuse_unknown_fields(const Json& object, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return unimplemented("field \"" + name + "\" is not supported");
    }
  }
  return ok();
}

Result<std::string> component_type(const Json& component) {
  if (!component.is_object()) {
    return expected("an object with a type", component);
  }
  PHALANX_TRY(std::string type, string_field(component, "type", ""));
  if (type.empty()) {
    return expected("an object with a type", component);
  }
  return type;
}

Result<AddedToken> read_added_token(const Json& object, TokenId id) {
  if (!object.is_object()) {
    return expected("an object", object);
  }
  PHALANX_RETURN_IF_ERROR(refuse_unknown_fields(
      object,
      {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"}));
  AddedToken token;
  token.id = id;
  PHALANX_TRY(token.content, string_field(object, "content", ""));
  if (token.content.empty()) {
    return expected("a token with content", object);
  }
  PHALANX_TRY(token.special, bool_field(object, "special", false));
  PHALANX_TRY(token.normalized, bool_field(object, "normalized", !token.special));
  PHALANX_TRY(token.single_word, bool_field(object, "single_word", false));
  PHALANX_TRY(token.lstrip, bool_field(object, "lstrip", false));
  PHALANX_TRY(token.rstrip, bool_field(object, "rstrip", false));
  return token;
}

}  // namespace phalanx::tokenizer
