// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "json_value.h"

namespace phalanx::openai {

// Appends JSON to a string, without building a tree first: one event is written for every token of
// every client. Commas are placed by the writer; the caller keeps brackets and keys in order.
// Strings come out as valid UTF-8 whatever goes in.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& text(std::string_view value);
  JsonWriter& integer(std::int64_t value);
  JsonWriter& unsigned_integer(std::uint64_t value);
  JsonWriter& real(double value);  // the shortest text that reads back the same
  JsonWriter& real(float value);
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  JsonWriter& value(const JsonValue& value);

  // "" is written as null.
  JsonWriter& text_or_null(std::string_view value) { return value.empty() ? null() : text(value); }

  [[nodiscard]] std::string take() { return std::move(out_); }
  void reserve(std::size_t bytes) { out_.reserve(bytes); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();

  std::string out_;
  bool comma_ = false;  // a value stands before the next one
};

// A string as JSON, with its quotes.
[[nodiscard]] std::string json_quoted(std::string_view text);

}  // namespace phalanx::openai
