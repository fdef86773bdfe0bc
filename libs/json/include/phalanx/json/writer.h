// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "phalanx/json/text.h"
#include "phalanx/json/value.h"

namespace phalanx::json {

// Appends JSON to a string, without building a tree first: one event is written for every token of
// every client. Commas are placed by the writer; the caller keeps brackets and keys in order.
// Strings come out as valid UTF-8 whatever goes in.
class Writer {
 public:
  explicit Writer(Characters characters = Characters::kUtf8) : characters_(characters) {}

  Writer& begin_object() { return open('{'); }
  Writer& end_object() { return close('}'); }
  Writer& begin_array() { return open('['); }
  Writer& end_array() { return close(']'); }
  Writer& key(std::string_view name);

  Writer& text(std::string_view value);
  Writer& integer(std::int64_t value);
  Writer& unsigned_integer(std::uint64_t value);
  Writer& real(double value);  // the shortest text that reads back the same
  Writer& real(float value);
  Writer& boolean(bool value);
  Writer& null();
  Writer& value(const Value& value);

  // A stretch of JSON as it is, with the comma before it; what comes next gets none before it.
  Writer& written(std::string_view json) {
    out_.append(json);
    comma_ = false;
    return *this;
  }

  // "" is written as null.
  Writer& text_or_null(std::string_view value) { return value.empty() ? null() : text(value); }

  [[nodiscard]] std::string take() { return std::move(out_); }
  void reserve(std::size_t bytes) { out_.reserve(bytes); }

 private:
  Writer& open(char bracket);
  Writer& close(char bracket);
  void separate();

  std::string out_;
  Characters characters_;
  bool comma_ = false;  // a value stands before the next one
};

// A string as JSON, with its quotes.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace phalanx::json
