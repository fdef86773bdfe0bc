// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <algorithm>
#include <sstream>

namespace phalanx::checkpoint {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

std::string number_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

std::string found_text(const element& found) {
  switch (found.type()) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::INT64:
      return std::to_string(found.get_int64().value_unsafe());
    case element_type::UINT64:
      return std::to_string(found.get_uint64().value_unsafe());
    case element_type::DOUBLE:
      return number_text(found.get_double().value_unsafe());
    case element_type::STRING: {
      const std::string_view text = found.get_string().value_unsafe();
      return "\"" + std::string(text.substr(0, 64)) + "\"";
    }
    case element_type::BOOL:
      return found.get_bool().value_unsafe() ? "true" : "false";
    case element_type::NULL_VALUE:
      return "null";
  }
  return "something else";
}

Result<element> JsonDocument::parse(std::string_view text, std::size_t bytes_max) {
  if (text.size() > bytes_max) {
    return invalid_argument("expected at most " + std::to_string(bytes_max) +
                            " bytes of JSON, found " + std::to_string(text.size()));
  }
  // The parser wants room for the document and its depth before it starts.
  auto error = parser_.allocate(std::max<std::size_t>(text.size(), 64), kMaxJsonDepth);
  element root;
  if (error == simdjson::SUCCESS) {
    error = parser_.parse(text.data(), text.size()).get(root);
  }
  if (error != simdjson::SUCCESS) {
    return invalid_argument(std::string("expected JSON, found: ") + simdjson::error_message(error));
  }
  return root;
}

std::string JsonFields::name_of(std::string_view field) const {
  return path_.empty() ? std::string(field) : path_ + "." + std::string(field);
}

Error JsonFields::wrong(std::string_view field,
                        std::string_view expected,
                        const element& found) const {
  return invalid_argument(name_of(field) + ": expected " + std::string(expected) + ", found " +
                          found_text(found));
}

bool JsonFields::has(std::string_view field) const {
  element found;
  return object_.at_key(field).get(found) == simdjson::SUCCESS && !found.is_null();
}

bool JsonFields::is_null(std::string_view field) const {
  element found;
  return object_.at_key(field).get(found) == simdjson::SUCCESS && found.is_null();
}

Result<element> JsonFields::at(std::string_view field) const {
  element found;
  if (object_.at_key(field).get(found) != simdjson::SUCCESS) {
    return invalid_argument(name_of(field) + ": expected a value, found nothing");
  }
  return found;
}

Result<std::uint32_t> JsonFields::positive(std::string_view field, std::uint32_t max) const {
  PHALANX_TRY(const element found, at(field));
  std::uint64_t value = 0;
  if (found.get_uint64().get(value) != simdjson::SUCCESS || value < 1 || value > max) {
    return wrong(field, "an integer from 1 to " + std::to_string(max), found);
  }
  return static_cast<std::uint32_t>(value);
}

Result<double> JsonFields::number(std::string_view field, double least, double most) const {
  PHALANX_TRY(const element found, at(field));
  double value = 0;
  if (found.get_double().get(value) != simdjson::SUCCESS || !(value >= least && value <= most)) {
    return wrong(field, "a number from " + number_text(least) + " to " + number_text(most), found);
  }
  return value;
}

Result<bool> JsonFields::boolean(std::string_view field) const {
  PHALANX_TRY(const element found, at(field));
  bool value = false;
  if (found.get_bool().get(value) != simdjson::SUCCESS) {
    return wrong(field, "true or false", found);
  }
  return value;
}

Result<std::string_view> JsonFields::text(std::string_view field) const {
  PHALANX_TRY(const element found, at(field));
  std::string_view value;
  if (found.get_string().get(value) != simdjson::SUCCESS) {
    return wrong(field, "a string", found);
  }
  return value;
}

Result<JsonFields> JsonFields::object(std::string_view field) const {
  PHALANX_TRY(const element found, at(field));
  simdjson::dom::object value;
  if (found.get_object().get(value) != simdjson::SUCCESS) {
    return wrong(field, "an object", found);
  }
  return JsonFields(value, name_of(field));
}

Result<std::vector<std::int32_t>> JsonFields::ids(std::string_view field,
                                                  std::uint32_t limit) const {
  constexpr std::size_t kMaxIds = 64;
  PHALANX_TRY(const element found, at(field));
  std::vector<element> elements;
  if (simdjson::dom::array array; found.get_array().get(array) == simdjson::SUCCESS) {
    for (const element item : array) {
      if (elements.size() == kMaxIds) {
        return wrong(field, "at most " + std::to_string(kMaxIds) + " token ids", found);
      }
      elements.push_back(item);
    }
  } else {
    elements.push_back(found);
  }
  std::vector<std::int32_t> ids;
  for (const element& item : elements) {
    std::uint64_t value = 0;
    if (item.get_uint64().get(value) != simdjson::SUCCESS || value >= limit) {
      return wrong(field, "token ids below the vocabulary size " + std::to_string(limit), item);
    }
    ids.push_back(static_cast<std::int32_t>(value));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace phalanx::checkpoint
