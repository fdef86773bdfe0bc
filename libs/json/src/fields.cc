// SPDX-License-Identifier: Apache-2.0
#include "phalanx/json/fields.h"

#include <algorithm>
#include <optional>
#include <sstream>

namespace phalanx::json {
namespace {

std::string number_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// The value as a token id below `limit`.
std::optional<std::int32_t> id_of(const Value& value, std::uint32_t limit) {
  const std::int64_t* const id = value.as_int();
  if (id == nullptr || *id < 0 || *id >= std::int64_t{limit}) {
    return std::nullopt;
  }
  return static_cast<std::int32_t>(*id);
}

}  // namespace

std::string Fields::name_of(std::string_view field) const {
  return path_.empty() ? std::string(field) : path_ + "." + std::string(field);
}

Error Fields::wrong(std::string_view field, std::string_view expected, const Value& found) const {
  return invalid_argument(name_of(field) + ": expected " + std::string(expected) + ", found " +
                          describe(found));
}

bool Fields::has(std::string_view field) const {
  const Value* const found = object_.find(field);
  return found != nullptr && !found->is_null();
}

bool Fields::is_null(std::string_view field) const {
  const Value* const found = object_.find(field);
  return found != nullptr && found->is_null();
}

Result<const Value*> Fields::at(std::string_view field) const {
  const Value* const found = object_.find(field);
  if (found == nullptr) {
    return invalid_argument(name_of(field) + ": expected a value, found nothing");
  }
  return found;
}

Result<std::uint32_t> Fields::positive(std::string_view field, std::uint32_t max) const {
  PHALANX_TRY(const Value* const found, at(field));
  const std::int64_t* const value = found->as_int();
  if (value == nullptr || *value < 1 || *value > std::int64_t{max}) {
    return wrong(field, "an integer from 1 to " + std::to_string(max), *found);
  }
  return static_cast<std::uint32_t>(*value);
}

Result<double> Fields::number(std::string_view field, double least, double most) const {
  PHALANX_TRY(const Value* const found, at(field));
  std::optional<double> value;
  if (const std::int64_t* const integer = found->as_int()) {
    value = static_cast<double>(*integer);
  } else if (const double* const real = found->as_double()) {
    value = *real;
  }
  if (!value.has_value() || !(*value >= least && *value <= most)) {
    return wrong(field, "a number from " + number_text(least) + " to " + number_text(most), *found);
  }
  return *value;
}

Result<bool> Fields::boolean(std::string_view field) const {
  PHALANX_TRY(const Value* const found, at(field));
  if (found->as_bool() == nullptr) {
    return wrong(field, "true or false", *found);
  }
  return *found->as_bool();
}

Result<std::string_view> Fields::text(std::string_view field) const {
  PHALANX_TRY(const Value* const found, at(field));
  if (found->as_string() == nullptr) {
    return wrong(field, "a string", *found);
  }
  return std::string_view(*found->as_string());
}

Result<Fields> Fields::object(std::string_view field) const {
  PHALANX_TRY(const Value* const found, at(field));
  if (found->as_object() == nullptr) {
    return wrong(field, "an object", *found);
  }
  return Fields(*found, name_of(field));
}

Result<std::vector<std::int32_t>> Fields::ids(std::string_view field, std::uint32_t limit) const {
  constexpr std::size_t kMaxIds = 64;
  PHALANX_TRY(const Value* const found, at(field));
  const Value::Array single = found->as_array() == nullptr ? Value::Array{*found} : Value::Array{};
  const Value::Array& items = found->as_array() == nullptr ? single : *found->as_array();
  if (items.size() > kMaxIds) {
    return wrong(field, "at most " + std::to_string(kMaxIds) + " token ids", *found);
  }
  std::vector<std::int32_t> ids;
  for (const Value& item : items) {
    const std::optional<std::int32_t> id = id_of(item, limit);
    if (!id.has_value()) {
      return wrong(field, "token ids below the vocabulary size " + std::to_string(limit), item);
    }
    ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace phalanx::json
