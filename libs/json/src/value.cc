// SPDX-License-Identifier: Apache-2.0
#include "phalanx/json/value.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "phalanx/json/writer.h"

namespace phalanx::json {
namespace {

// Up to so many keys, comparing all pairs is cheaper than a hash set.
constexpr std::size_t kPairwiseKeysMax = 16;

const std::string* duplicate_key(const Value::Object& object) {
  if (object.size() <= kPairwiseKeysMax) {
    for (auto member = object.begin(); member != object.end(); ++member) {
      const auto same = [&](const Member& earlier) { return earlier.key == member->key; };
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
  explicit Builder(const Limits& limits) : limits_(limits) {}

  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return put(Value()); }
  bool boolean(bool value) { return put(Value::Data(value)); }
  bool number_integer(number_integer_t value) { return put(Value::Data(std::int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      return put(Value::Data(static_cast<double>(value)));
    }
    return put(Value::Data(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) {
    return put(Value::Data(value));
  }
  bool string(string_t& value) { return put(Value::Data(std::move(value))); }
  bool binary(binary_t& /*value*/) { return false; }

  bool start_object(std::size_t /*elements*/) { return open(Value::Data(Value::Object{})); }
  bool start_array(std::size_t /*elements*/) { return open(Value::Data(Value::Array{})); }
  bool key(string_t& value) {
    keys_.push_back(std::move(value));
    return true;
  }
  bool end_array() { return close(); }
  bool end_object() {
    const auto& object = std::get<Value::Object>(open_.back().data);
    if (const std::string* key = duplicate_key(object)) {
      error_ = "the key " + quote(key->substr(0, 64)) + " stands twice in one object";
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

  [[nodiscard]] Value take() { return std::move(root_); }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  bool put(Value value) {
    if (++values_ > limits_.values_max) {
      error_ = "the JSON has more than " + std::to_string(limits_.values_max) + " values";
      return false;
    }
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* array = std::get_if<Value::Array>(&open_.back().data)) {
      array->push_back(std::move(value));
    } else {
      std::get<Value::Object>(open_.back().data)
          .push_back({std::move(keys_.back()), std::move(value)});
      keys_.pop_back();
    }
    return true;
  }

  bool open(Value value) {
    if (open_.size() >= limits_.depth_max) {
      error_ = "the JSON is nested deeper than " + std::to_string(limits_.depth_max) + " levels";
      return false;
    }
    open_.push_back(std::move(value));
    return true;
  }

  bool close() {
    Value value = std::move(open_.back());
    open_.pop_back();
    return put(std::move(value));
  }

  const Limits& limits_;
  std::size_t values_ = 0;
  Value root_;
  std::vector<Value> open_;        // arrays and objects that have begun, outermost first
  std::vector<std::string> keys_;  // whose values have not come yet
  std::string error_;
};

}  // namespace

Value::Value() = default;
Value::Value(Data its_data) : data(std::move(its_data)) {}
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

const Value* Value::find(std::string_view key) const {
  if (const Object* object = as_object()) {
    for (const auto& [name, value] : *object) {
      if (name == key) {
        return &value;
      }
    }
  }
  return nullptr;
}

Result<Value> parse(std::string_view text, const Limits& limits) {
  if (text.size() > limits.bytes_max) {
    return invalid_argument("expected at most " + std::to_string(limits.bytes_max) +
                            " bytes of JSON, found " + std::to_string(text.size()));
  }
  Builder builder(limits);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return invalid_argument(builder.error());
  }
  return builder.take();
}

std::string describe(const Value& value) {
  constexpr std::size_t kShownBytesMax = 40;
  if (const std::string* text = value.as_string()) {
    return text->size() <= kShownBytesMax
               ? quote(*text)
               : "a string of " + std::to_string(text->size()) + " bytes";
  }
  if (const auto* array = value.as_array()) {
    return array->empty() ? "an empty array" : "an array";
  }
  if (value.as_object() != nullptr) {
    return "an object";
  }
  Writer writer;
  writer.value(value);
  return writer.take();
}

}  // namespace phalanx::json
