// SPDX-License-Identifier: Apache-2.0
// Which values are equal, and which of two comes first.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/jinja/value.h"

#include "value_kinds.h"

namespace phalanx::jinja {
namespace {

int sign_of(double difference) {
  return difference < 0 ? -1 : difference > 0 ? 1 : 0;
}

int compare_digits(std::string_view a, std::string_view b) {
  const bool negative = a.starts_with('-');
  if (negative != b.starts_with('-')) {
    return negative ? -1 : 1;
  }
  const int order = a.size() != b.size() ? (a.size() < b.size() ? -1 : 1) : a.compare(b);
  return negative ? -order : order;
}

// Of an integer beyond 64 bits and a number, which is exact: floats as large are whole.
int compare_with(const Value::BigInteger& big, const Value& number) {
  const bool negative = big.digits->starts_with('-');
  const double real = number.as_integer() ? 0.0 : *number.as_number();
  if (!std::isfinite(real)) {
    return std::isnan(real) ? 1 : -sign_of(real);
  }
  if (std::abs(real) < 0x1p63) {
    return negative ? -1 : 1;
  }
  std::array<char, std::numeric_limits<double>::max_exponent10 + 3> digits{};
  const auto written = std::to_chars(
      digits.data(), digits.data() + digits.size(), real, std::chars_format::fixed, 0);
  return compare_digits(*big.digits,
                        {digits.data(), static_cast<std::size_t>(written.ptr - digits.data())});
}

// Nothing where neither is a big integer or one is no number.
std::optional<int> compare_big(const Value& a, const Value& b) {
  const auto* x = a.get<Value::BigInteger>();
  const auto* y = b.get<Value::BigInteger>();
  if (x != nullptr && y != nullptr) {
    return compare_digits(*x->digits, *y->digits);
  }
  const Value::BigInteger* const big = x != nullptr ? x : y;
  const Value& other = x != nullptr ? b : a;
  if (big == nullptr || !other.as_number()) {
    return std::nullopt;
  }
  const int order = compare_with(*big, other);
  return x != nullptr ? order : -order;
}

bool equal_lists(const List& a, const List& b) {
  return a.is_tuple == b.is_tuple && a.items.size() == b.items.size() &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  return a.entries().size() == b.entries().size() &&
         std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
           const Value* other = b.find(entry.key->text());
           return other != nullptr && equal(entry.value, *other);
         });
}

}  // namespace

bool equal(const Value& a, const Value& b) {
  const auto left = a.as_integer();
  const auto right = b.as_integer();
  if (left && right) {
    return *left == *right;
  }
  if (a.as_number() && b.as_number()) {
    return *a.as_number() == *b.as_number();
  }
  if (const auto order = compare_big(a, b)) {
    return *order == 0;
  }
  if (a.as_text() != nullptr && b.as_text() != nullptr) {
    return a.as_text()->text() == b.as_text()->text();
  }
  if (a.as_list() != nullptr && b.as_list() != nullptr) {
    return equal_lists(*a.as_list(), *b.as_list());
  }
  if (a.as_dict() != nullptr && b.as_dict() != nullptr) {
    return equal_dicts(*a.as_dict(), *b.as_dict());
  }
  if (const auto* space = a.get<Value::NamespacePtr>()) {
    return b.is<Value::NamespacePtr>() && *space == *b.get<Value::NamespacePtr>();
  }
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool is_hashable(const Value& value) {
  const List* const list = value.as_list();
  return value.as_dict() == nullptr &&
         (list == nullptr ||
          (list->is_tuple && std::all_of(list->items.begin(), list->items.end(), is_hashable)));
}

Result<int> compare(const Value& a, const Value& b) {
  const auto left = a.as_integer();
  const auto right = b.as_integer();
  if (left && right) {
    return (*left > *right) - (*left < *right);
  }
  if (a.as_number() && b.as_number()) {
    return sign_of(*a.as_number() - *b.as_number());
  }
  if (const auto order = compare_big(a, b)) {
    return *order;
  }
  if (a.as_text() != nullptr && b.as_text() != nullptr) {
    // Bytes of UTF-8 have the order of their code points.
    return a.as_text()->text().compare(b.as_text()->text());
  }
  const List* x = a.as_list();
  const List* y = b.as_list();
  if (x != nullptr && y != nullptr && x->is_tuple == y->is_tuple) {
    for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
      if (!equal(x->items[i], y->items[i])) {
        return compare(x->items[i], y->items[i]);
      }
    }
    return sign_of(static_cast<double>(x->items.size()) - static_cast<double>(y->items.size()));
  }
  for (const Value* value : {&a, &b}) {
    if (const auto* undefined = value->get<Value::Undefined>()) {
      return invalid_argument(*undefined->reason);
    }
  }
  return invalid_argument("cannot compare " + std::string(a.type_name()) + " with " +
                          std::string(b.type_name()));
}

}  // namespace phalanx::jinja
