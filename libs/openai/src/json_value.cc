// SPDX-License-Identifier: Apache-2.0
#include "json_value.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "json_writer.h"

namespace phalanx::openai {
namespace {

// Up to so many keys, comparing all pairs is cheaper than a hash set.
constexpr std::size_t kPairwiseKeysMax = 16;

const std::string* duplicate_key(const JsonValue::Object& object) {
  if (object.size() <= kPairwiseKeysMax) {
    for (auto member = object.begin(); member != object.end(); ++member) {
      const auto same = [&](const JsonMember& earlier) { return earlier.key == member->key; };
      if (std::any_of(object.begin(), member, same)) {
        return &member->key;
      }
    }
    return nullptr;
  }
  std::unordered_set<std::string_view> seen;
  seen.reserve(object.size());
  for (const auto& [key, value] : object) {
    if (!seen.insert(key).second) {
      return &key;
    }
  }
  return nullptr;
}

// Builds the value from the parser's events. The parser itself does not recurse and has no limit of
// its own, so this is where depth is bounded.
class Builder {
 public:
  explicit Builder(std::size_t depth_max) : depth_max_(depth_max) {}

  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return put(JsonValue()); }
  bool boolean(bool value) { return put(JsonValue::Data(value)); }
  bool number_integer(number_integer_t value) { return put(JsonValue::Data(std::int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      return put(JsonValue::Data(static_cast<double>(value)));
    }
    return put(JsonValue::Data(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) {
    return put(JsonValue::Data(value));
  }
  bool string(string_t& value) { return put(JsonValue::Data(std::move(value))); }
  bool binary(binary_t& /*value*/) { return false; }

  bool start_object(std::size_t /*elements*/) { return open(JsonValue::Data(JsonValue::Object{})); }
  bool start_array(std::size_t /*elements*/) { return open(JsonValue::Data(JsonValue::Array{})); }
  bool key(string_t& value) {
    keys_.push_back(std::move(value));
    return true;
  }
  bool end_array() { return close(); }
  bool end_object() {
    const auto& object = std::get<JsonValue::Object>(open_.back().data);
    if (const std::string* key = duplicate_key(object)) {
      error_ = "the key " + json_quoted(key->substr(0, 64)) + " stands twice in one object";
      return false;
    }
    return close();
  }
  bool parse_error(std::size_t position,
                   const std::string& /*token*/,
                   const nlohmann::detail::exception& error) {
    std::string what = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while …"
    const std::size_t detail = what.find(": ");
    error_ = "not valid JSON at byte " + std::to_string(position) + ": " +
             (detail == std::string::npos ? what : what.substr(detail + 2));
    return false;
  }

  [[nodiscard]] JsonValue take() { return std::move(root_); }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  bool put(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* array = std::get_if<JsonValue::Array>(&open_.back().data)) {
      array->push_back(std::move(value));
    } else {
      std::get<JsonValue::Object>(open_.back().data)
          .push_back({std::move(keys_.back()), std::move(value)});
      keys_.pop_back();
    }
    return true;
  }

  bool open(JsonValue value) {
    if (open_.size() >= depth_max_) {
      error_ = "the JSON is nested deeper than " + std::to_string(depth_max_) + " levels";
      return false;
    }
    open_.push_back(std::move(value));
    return true;
  }

  bool close() {
    JsonValue value = std::move(open_.back());
    open_.pop_back();
    return put(std::move(value));
  }

  std::size_t depth_max_;
  JsonValue root_;
  std::vector<JsonValue> open_;    // arrays and objects that have begun, outermost first
  std::vector<std::string> keys_;  // whose values have not come yet
  std::string error_;
};

}  // namespace

JsonValue::JsonValue() = default;
JsonValue::JsonValue(Data its_data) : data(std::move(its_data)) {}
JsonValue::JsonValue(const JsonValue&) = default;
JsonValue::JsonValue(JsonValue&&) noexcept = default;
JsonValue& JsonValue::operator=(const JsonValue&) = default;
JsonValue& JsonValue::operator=(JsonValue&&) noexcept = default;
JsonValue::~JsonValue() = default;

const JsonValue* JsonValue::find(std::string_view key) const {
  if (const Object* object = as_object()) {
    for (const auto& [name, value] : *object) {
      if (name == key) {
        return &value;
      }
    }
  }
  return nullptr;
}

Result<JsonValue> parse_json(std::string_view text, std::size_t depth_max) {
  Builder builder(depth_max);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return invalid_argument(builder.error());
  }
  return builder.take();
}

std::string describe(const JsonValue& value) {
  constexpr std::size_t kShownBytesMax = 40;
  if (const std::string* text = value.as_string()) {
    return text->size() <= kShownBytesMax
               ? json_quoted(*text)
               : "a string of " + std::to_string(text->size()) + " bytes";
  }
  if (const auto* array = value.as_array()) {
    return array->empty() ? "an empty array" : "an array";
  }
  if (value.as_object() != nullptr) {
    return "an object";
  }
  JsonWriter writer;
  writer.value(value);
  return writer.take();
}

}  // namespace phalanx::openai
