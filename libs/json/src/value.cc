// SPDX-License-Identifier: Apache-2.0
#include "phalanx/json/value.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "phalanx/json/writer.h"

namespace phalanx::json {
namespace {

// Up to so many keys, comparing all pairs is cheaper than sorting them.
constexpr std::size_t kMaxPairwiseKeys = 16;

const std::string* duplicate_key(const Value::Object& object) {
  if (object.size() <= kMaxPairwiseKeys) {
    for (auto member = object.begin(); member != object.end(); ++member) {
      const auto same = [&](const Member& earlier) { return earlier.key == member->key; };
      if (std::any_of(object.begin(), member, same)) {
        return &member->key;
      }
    }
    return nullptr;
  }
  // Whoever chooses keys can make those of a hash table collide.
  std::vector<const std::string*> keys;
  keys.reserve(object.size());
  for (const auto& [key, value] : object) {
    keys.push_back(&key);
  }
  std::sort(keys.begin(), keys.end(), [](const auto* a, const auto* b) { return *a < *b; });
  const auto same = std::adjacent_find(
      keys.begin(), keys.end(), [](const auto* a, const auto* b) { return *a == *b; });
  return same == keys.end() ? nullptr : *same;
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The characters of a JSON text, but of each run of blanks outside of strings only the first: the
// parser keeps what it has read of them, eight bytes for each, for the message of an error.
class JsonBytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  JsonBytes(const char* at, const char* end) : at_(at), end_(end) {}

  [[nodiscard]] const char* at() const { return at_; }
  reference operator*() const { return *at_; }
  JsonBytes& operator++() {
    const char c = *at_++;
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
      return *this;
    }
    in_string_ = c == '"';
    while (is_blank(c) && at_ != end_ && is_blank(*at_)) {
      ++at_;
    }
    return *this;
  }
  friend bool operator==(const JsonBytes& a, const JsonBytes& b) { return a.at_ == b.at_; }
  friend bool operator!=(const JsonBytes& a, const JsonBytes& b) { return !(a == b); }

 private:
  const char* at_;
  const char* end_;
  bool in_string_ = false;
  bool escaped_ = false;
};

// What the parser says is wrong, without the text that it has read, which may be all of it.
std::string_view complaint(std::string_view what) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while …; last
  // read: '…'; expected …", "[json.exception.out_of_range.406] number overflow parsing '1e999'"
  what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
  if (what.starts_with("parse error")) {
    what.remove_prefix(std::min(what.size(), what.find(": ") + 2));
  }
  return what.substr(0, std::min(what.find("; last read: "), what.find(" parsing '")));
}

// Builds the value from the parser's events. The parser itself does not recurse and has no limit of
// its own, so this is where depth is bounded.
class Builder {
 public:
  Builder(std::string_view text, const Limits& limits) : text_(text), limits_(limits) {}

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
      return put_big(static_cast<double>(value), std::to_string(value));
    }
    return put(Value::Data(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) {
    // The parser takes an integer that 64 bits do not hold for one of these.
    return text.find_first_of(".eE") == string_t::npos ? put_big(value, text)
                                                       : put(Value::Data(value));
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
    constexpr std::size_t kShownBytes = 40;
    JsonBytes at(text_.data(), text_.data() + text_.size());
    for (std::size_t read = 0; read < position && at.at() != text_.data() + text_.size(); ++read) {
      ++at;
    }
    const auto byte = static_cast<std::size_t>(at.at() - text_.data());
    const std::size_t shown = std::min(byte, kShownBytes);
    error_ = "not valid JSON at byte " + std::to_string(byte) + ": " +
             std::string(complaint(error.what())) +
             "; last read: " + quote(text_.substr(byte - shown, shown));
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

  bool put_big(double nearest, std::string digits) {
    return put(
        Value::Data(BigInteger{nearest, std::make_shared<const std::string>(std::move(digits))}));
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

  std::string_view text_;
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
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    // The parser would take it for the end of the text.
    return invalid_argument("not valid JSON at byte " + std::to_string(nul + 1) + ": a NUL");
  }
  const char* const end = text.data() + text.size();
  Builder builder(text, limits);
  if (!nlohmann::json::sax_parse(JsonBytes(text.data(), end), JsonBytes(end, end), &builder)) {
    return invalid_argument(builder.error());
  }
  return builder.take();
}

std::string describe(const Value& value) {
  constexpr std::size_t kMaxShownBytes = 40;
  if (const std::string* text = value.as_string()) {
    return text->size() <= kMaxShownBytes
               ? quote(*text)
               : "a string of " + std::to_string(text->size()) + " bytes";
  }
  if (const auto* array = value.as_array()) {
    return array->empty() ? "an empty array" : "an array";
  }
  if (value.as_object() != nullptr) {
    return "an object";
  }
  if (const auto* big = value.as_big_int();
      big != nullptr && big->digits->size() > kMaxShownBytes) {
    return "an integer of " + std::to_string(big->digits->size()) + " bytes";
  }
  Writer writer;
  writer.value(value);
  return writer.take();
}

}  // namespace phalanx::json
