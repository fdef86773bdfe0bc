// SPDX-License-Identifier: Apache-2.0
// The key-value section of a GGUF file, read in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::gguf {

// Numbered as in the file.
enum class ValueType : std::uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// "uint8", "string" …
[[nodiscard]] std::string_view name_of(ValueType type);

// One value as it lies in the file; every length in it was checked to lie inside the file.
struct Value {
  ValueType type = ValueType::kUint8;
  ValueType element = ValueType::kUint8;  // of an array
  std::uint64_t count = 1;                // elements of an array
  // A scalar's bytes, a string's characters, or an array's elements one after another, where each
  // string has its length before it.
  std::span<const std::byte> bytes;
};

// Keys are unique, UTF-8 and at most kMaxKeyBytes long. A value is asked for by key and kind; what
// the file has instead is in the message.
//
// Ownership: borrows the bytes of the file, and so does every string_view that it returns.
// Threads:   const access from many at once.
// Errors of all getters:
//   kNotFound         there is no such key
//   kInvalidArgument  the value is of another kind or out of range (key, expected, found)
class Metadata {
 public:
  [[nodiscard]] bool has(std::string_view key) const { return values_.contains(key); }

  // Any of the eight integer types; the value must lie in [least, most].
  [[nodiscard]] Result<std::int64_t> integer(std::string_view key,
                                             std::int64_t least,
                                             std::int64_t most) const;

  // The id of a token, at most `most`; nothing where the key is absent or says -1 or 2^32-1, which
  // writers put for "none".
  [[nodiscard]] Result<std::optional<std::int64_t>> token_id(std::string_view key,
                                                             std::int64_t most) const;

  // float32, float64 or an integer type; finite.
  [[nodiscard]] Result<double> number(std::string_view key) const;

  [[nodiscard]] Result<bool> boolean(std::string_view key) const;

  // The bytes as they are: a value, unlike a key, need not be UTF-8.
  [[nodiscard]] Result<std::string_view> text(std::string_view key) const;

  // An array of strings, of float32, or of any integer type whose values fit into int32.
  [[nodiscard]] Result<std::vector<std::string_view>> texts(std::string_view key) const;
  [[nodiscard]] Result<std::vector<float>> floats(std::string_view key) const;
  [[nodiscard]] Result<std::vector<std::int32_t>> integers(std::string_view key) const;

  // The number of elements of an array of any type.
  [[nodiscard]] Result<std::uint64_t> array_size(std::string_view key) const;

  [[nodiscard]] const std::map<std::string_view, Value>& values() const { return values_; }

  // Whether the key was new. For the reader; `value.bytes` must already be checked.
  bool add(std::string_view key, const Value& value);

 private:
  [[nodiscard]] Result<Value> array(std::string_view key, std::string_view expected) const;

  std::map<std::string_view, Value> values_;
};

// "the string \"llama\"", "an array of 3 float32", for messages; never longer than about 100 bytes.
[[nodiscard]] std::string describe(const Value& value);

// "1e-06": nine digits at most, for messages about numbers of any size.
[[nodiscard]] std::string number_text(double value);

}  // namespace phalanx::gguf
