// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/jinja/value.h"

namespace phalanx::jinja {

// What a text takes besides its Value and its bytes.
inline constexpr std::size_t kTextBytes = 112;

struct Iterable {
  std::string_view name;  // of the type
  std::vector<Value> items;
  bool is_once = false;
  std::int64_t first = 0;  // of a range
  std::int64_t stop = 0;
  std::int64_t step = 0;  // 0: no range
  std::size_t depth = 1;
  std::size_t walk_bytes = 0;
  // How far a generator has been gone through. A value belongs to one rendering, so to one thread.
  mutable std::size_t next = 0;

  [[nodiscard]] bool is_range() const { return step != 0; }
};

class Namespace {
 public:
  [[nodiscard]] const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);

 private:
  std::vector<std::pair<std::string, Value>> values_;
};

struct Method {
  Value object;
  std::string name;
};

// Python's ==, between any two values.
[[nodiscard]] bool equal(const Value& a, const Value& b);

// Whether Python could use the value as a key.
[[nodiscard]] bool is_hashable(const Value& value);

// Python's order of numbers, strings and lists: negative, zero or positive.
//
// Errors: kInvalidArgument  the two have no order
[[nodiscard]] Result<int> compare(const Value& a, const Value& b);

// What str() gives: the text that a template prints. Undefined prints as nothing.
//
// Errors: kInvalidArgument  macros, methods, namespaces and loops do not print
[[nodiscard]] Result<MarkedText> to_text(const Value& value);

// The elements that a for loop over the value sees: items, keys, characters.
//
// Errors: kInvalidArgument  the value cannot be iterated
[[nodiscard]] Result<std::vector<Value>> elements(const Value& value);

// How many bytes those take, or more.
[[nodiscard]] std::size_t elements_bytes(const Value& value);

// len();
// Errors: as elements().
[[nodiscard]] Result<std::size_t> length(const Value& value);

// How Python writes a floating-point number: the shortest digits that read back the same.
[[nodiscard]] std::string float_text(double number);

}  // namespace phalanx::jinja
