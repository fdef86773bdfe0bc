// SPDX-License-Identifier: Apache-2.0
// Typed access to small JSON documents with messages that name field, expected and found.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::checkpoint {

inline constexpr std::size_t kMaxJsonDepth = 64;

// What `found` is, for messages: "the string \"x\"", "an array" …
[[nodiscard]] std::string found_text(const simdjson::dom::element& found);

// A parsed document; elements live as long as it does.
class JsonDocument {
 public:
  // Errors: kInvalidArgument  larger than `bytes_max`, deeper than kMaxJsonDepth, not JSON
  Result<simdjson::dom::element> parse(std::string_view text, std::size_t bytes_max);

 private:
  simdjson::dom::parser parser_;
};

// An object whose fields are read by name. A field that is absent or null is "not there".
class JsonFields {
 public:
  JsonFields(simdjson::dom::object object, std::string path)
      : object_(object), path_(std::move(path)) {}

  [[nodiscard]] bool has(std::string_view field) const;
  // There and null, for fields whose absence means something else.
  [[nodiscard]] bool is_null(std::string_view field) const;
  [[nodiscard]] Result<std::uint32_t> positive(std::string_view field, std::uint32_t max) const;
  [[nodiscard]] Result<double> number(std::string_view field, double least, double most) const;
  [[nodiscard]] Result<bool> boolean(std::string_view field) const;
  [[nodiscard]] Result<std::string_view> text(std::string_view field) const;
  [[nodiscard]] Result<JsonFields> object(std::string_view field) const;
  // An integer or an array of integers, each in [0, limit); ascending, without duplicates.
  [[nodiscard]] Result<std::vector<std::int32_t>> ids(std::string_view field,
                                                      std::uint32_t limit) const;
  [[nodiscard]] Result<simdjson::dom::element> at(std::string_view field) const;

  [[nodiscard]] std::string name_of(std::string_view field) const;

 private:
  [[nodiscard]] Error wrong(std::string_view field,
                            std::string_view expected,
                            const simdjson::dom::element& found) const;

  simdjson::dom::object object_;
  std::string path_;
};

}  // namespace phalanx::checkpoint
