// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/jinja/value.h"

namespace phalanx::jinja {

// JSON text as a value; all its strings and keys are user data. A name that stands twice in an
// object has its last value. Bounded: nesting at most kMaxValueDepth, memory about kMaxWalkBytes.
//
// Errors: kInvalidArgument  not JSON, nested too deeply, too much; `what` names it in the message
[[nodiscard]] Result<Value> parse_json_value(std::string_view json, std::string_view what);

struct JsonStyle {
  std::optional<std::int64_t> indent;  // spaces a level, one item a line; absent: all on one line
  bool ensure_ascii = false;           // other characters as \uXXXX
  bool sort_keys = false;
  MarkedText item_separator = MarkedText::literal(", ");  // without the line break
  MarkedText key_separator = MarkedText::literal(": ");
};

// Is told of all bytes before any is written; with its error none is.
using Charge = std::function<Status(std::size_t bytes)>;

// The value as Python's json.dumps writes it, which may be a hundred times as long.
//
// Errors: kInvalidArgument  undefined values and the kinds that JSON does not have
//         those of `charge`
[[nodiscard]] Result<MarkedText> to_json(const Value& value,
                                         const JsonStyle& style,
                                         const Charge& charge);

}  // namespace phalanx::jinja
