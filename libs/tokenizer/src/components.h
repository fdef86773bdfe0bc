// SPDX-License-Identifier: Apache-2.0
// What the JSON files of a tokenizer have in common.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/json/value.h"

#include "added_tokens.h"

namespace phalanx::tokenizer {

using Json = json::Value;

// json::parse() with `what` before its error.
[[nodiscard]] Result<Json> parse_json(std::string_view text, std::string_view what);

// A field of an object with the type it must have; absent and null give the fallback.
[[nodiscard]] Result<bool> bool_field(const Json& object, std::string_view name, bool fallback);
[[nodiscard]] Result<std::string> string_field(const Json& object,
                                               std::string_view name,
                                               std::string_view fallback);

// The members of a field that is an array of at most `most`; otherwise null.
[[nodiscard]] const Json::Array* array_field(const Json& object,
                                             std::string_view name,
                                             std::size_t most);

// Refuses an object with a field that is not in `known`, by name.
[[nodiscard]] Status refuse_unknown_fields(const Json& object,
                                           std::initializer_list<std::string_view> known);

// The "type" of a component; kInvalidArgument if `component` is no object with one.
[[nodiscard]] Result<std::string> component_type(const Json& component);

// A token id from 0 to kMaxTokenId. kInvalidArgument says `what` was expected, `shown` found.
[[nodiscard]] Result<TokenId> token_id_of(const Json* value,
                                          std::string_view what,
                                          const Json& shown);

// An added token as both files write it; the id is the caller's.
[[nodiscard]] Result<AddedToken> read_added_token(const Json& object, TokenId id);

// "expected …, found …" with a short form of what is there.
[[nodiscard]] Error expected(std::string_view what, const Json& found);

}  // namespace phalanx::tokenizer
