// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/json/value.h"

namespace phalanx::json {

// An object whose fields are read by name, with messages that name field (by its path), expected
// and found. A field that is absent or null is "not there".
//
// Ownership: refers to the value.
// Errors of all readers: kInvalidArgument.
class Fields {
 public:
  // `object` must be one; anything else has no fields. `path` stands before the names in messages.
  Fields(const Value& object, std::string path) : object_(object), path_(std::move(path)) {}

  [[nodiscard]] bool has(std::string_view field) const;
  // There and null, for fields whose absence means something else.
  [[nodiscard]] bool is_null(std::string_view field) const;
  [[nodiscard]] Result<std::uint32_t> positive(std::string_view field, std::uint32_t max) const;
  [[nodiscard]] Result<double> number(std::string_view field, double least, double most) const;
  [[nodiscard]] Result<bool> boolean(std::string_view field) const;
  [[nodiscard]] Result<std::string_view> text(std::string_view field) const;
  [[nodiscard]] Result<Fields> object(std::string_view field) const;
  // An integer or an array of integers, each in [0, limit); ascending, without duplicates.
  [[nodiscard]] Result<std::vector<std::int32_t>> ids(std::string_view field,
                                                      std::uint32_t limit) const;
  // The value itself, never null.
  [[nodiscard]] Result<const Value*> at(std::string_view field) const;

  [[nodiscard]] std::string name_of(std::string_view field) const;

 private:
  [[nodiscard]] Error wrong(std::string_view field,
                            std::string_view expected,
                            const Value& found) const;

  const Value& object_;
  std::string path_;
};

}  // namespace phalanx::json
