// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "phalanx/base/result.h"

#include "added_tokens.h"

namespace phalanx::tokenizer {

using Json = nlohmann::json;

// Parses text whose nesting and size the caller has bounded by the file's size. Never throws.
[[nodiscard]] Result<Json> parse_json(std::string_view text, std::string_view what);

// A field of an object with the type it must have; absent and null give the fallback.
[[nodiscard]] Result<bool> bool_field(const Json& object, const char* name, bool fallback);
[[nodiscard]] Result<std::string> string_field(const Json& object,
                                               const char* name,
                                               std::string_view fallback);

// Refuses an object with a field that is not in `known`, by name.
[[nodiscard]] Status refuse_unknown_fields(const Json& object,
                                           std::initializer_list<std::string_view> known);

// The "type" of a component; kInvalidArgument if `component` is no object with one.
[[nodiscard]] Result<std::string> component_type(const Json& component);

// An added token as both files write it; the id is the caller's.
[[nodiscard]] Result<AddedToken> read_added_token(const Json& object, TokenId id);

// "expected …, found …" with a short form of what is there.
[[nodiscard]] Error expected(std::string_view what, const Json& found);

}  // namespace phalanx::tokenizer
