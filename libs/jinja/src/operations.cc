// SPDX-License-Identifier: Apache-2.0
#include "operations.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/find_text.h"
#include "phalanx/base/utf8.h"

#include "arithmetic.h"

namespace phalanx::jinja {
namespace {

Error undefined_or_mismatch(std::string_view sign, const Value& left, const Value& right) {
  for (const Value* operand : {&left, &right}) {
    if (const auto* undefined = operand->get<Value::Undefined>()) {
      return invalid_argument(*undefined->reason);
    }
  }
  return invalid_argument("cannot apply " + std::string(sign) + " to " +
                          std::string(left.type_name()) + " and " + std::string(right.type_name()));
}

std::string_view symbol_of(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    default:
      return "**";
  }
}

// text * n and list * n
Result<Value> repeat(Interpreter& interpreter, const Value& sequence, std::int64_t count) {
  const auto times = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  const MarkedText* const text = sequence.as_text();
  const std::size_t unit =
      text != nullptr ? text->size() : sequence.as_list()->items.size() * sizeof(Value);
  if (times > 0 && unit > std::numeric_limits<std::size_t>::max() / times) {
    return interpreter.charge(std::numeric_limits<std::size_t>::max()).error();
  }
  // A unit of nothing repeats no more often than it can be counted.
  PHALANX_RETURN_IF_ERROR(interpreter.charge(unit * times));
  MarkedText repeated;
  std::vector<Value> items;
  for (std::size_t i = 0; unit > 0 && i < times; ++i) {
    if (text != nullptr) {
      repeated.append(*text);
    } else {
      const auto& source = sequence.as_list()->items;
      items.insert(items.end(), source.begin(), source.end());
    }
  }
  return text != nullptr ? Result<Value>(Value::text(std::move(repeated)))
                         : Value::list(std::move(items), sequence.as_list()->is_tuple);
}

Result<Value> join_sequences(Interpreter& interpreter, const Value& left, const Value& right) {
  if (left.as_text() != nullptr && right.as_text() != nullptr) {
    PHALANX_RETURN_IF_ERROR(interpreter.charge(left.as_text()->size() + right.as_text()->size()));
    MarkedText joined = *left.as_text();
    joined.append(*right.as_text());
    return Value::text(std::move(joined));
  }
  const List* const a = left.as_list();
  const List* const b = right.as_list();
  if (a == nullptr || b == nullptr || a->is_tuple != b->is_tuple) {
    return undefined_or_mismatch("+", left, right);
  }
  PHALANX_RETURN_IF_ERROR(interpreter.charge((a->items.size() + b->items.size()) * sizeof(Value)));
  std::vector<Value> items = a->items;
  items.insert(items.end(), b->items.begin(), b->items.end());
  return Value::list(std::move(items), a->is_tuple);
}

bool is_sequence(const Value& value) {
  return value.as_text() != nullptr || value.as_list() != nullptr;
}

// The indices that a slice of a sequence of `size` elements visits: Python's slice.indices().
struct SliceRange {
  std::int64_t start;
  std::int64_t stop;
  std::int64_t step;
};

Result<SliceRange> slice_range(std::size_t size,
                               const Value& start,
                               const Value& stop,
                               const Value& step) {
  for (const Value* part : {&start, &stop, &step}) {
    if (!part->is_none() && !part->as_integer().has_value()) {
      return invalid_argument("a slice takes integers, found " + std::string(part->type_name()));
    }
  }
  const std::int64_t stride = step.is_none() ? 1 : *step.as_integer();
  if (stride == 0) {
    return invalid_argument("a slice cannot step by zero");
  }
  const auto count = static_cast<std::int64_t>(size);
  const std::int64_t low = stride > 0 ? 0 : -1;
  const std::int64_t high = stride > 0 ? count : count - 1;
  const auto bound = [&](const Value& part, std::int64_t fallback) {
    if (part.is_none()) {
      return fallback;
    }
    const std::int64_t at = *part.as_integer();
    return std::clamp(at < 0 && at >= -count ? at + count : at < 0 ? low : at, low, high);
  };
  return SliceRange{
      bound(start, stride > 0 ? low : high), bound(stop, stride > 0 ? high : low), stride};
}

// Calls `visit` with each index of the range.
template <typename Visit>
void for_each_index(const SliceRange& range, const Visit& visit) {
  for (std::int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop;) {
    visit(static_cast<std::size_t>(i));
    if (__builtin_add_overflow(i, range.step, &i)) {
      break;
    }
  }
}

// Byte offsets of the characters, and the end.
std::vector<std::size_t> character_offsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < text.size();) {
    offsets.push_back(i);
    static_cast<void>(next_code_point(text, i));
  }
  offsets.push_back(text.size());
  return offsets;
}

MarkedText slice_text(const MarkedText& text,
                      const SliceRange& range,
                      const std::vector<std::size_t>& offsets) {
  if (range.step == 1) {
    const auto begin = static_cast<std::size_t>(range.start);
    const auto end = static_cast<std::size_t>(std::max(range.start, range.stop));
    return text.slice(offsets[begin], offsets[end]);
  }
  MarkedText result;
  for_each_index(range,
                 [&](std::size_t i) { result.append(text.slice(offsets[i], offsets[i + 1])); });
  return result;
}

// Another range, which prints the numbers it would be written with.
Result<Value> slice_of_range(const Iterable& whole,
                             const Value& start,
                             const Value& stop,
                             const Value& step) {
  PHALANX_TRY(const SliceRange range, slice_range(whole.items.size(), start, stop, step));
  const auto at = [&](std::int64_t index) -> Result<std::int64_t> {
    std::int64_t number = 0;
    if (__builtin_mul_overflow(index, whole.step, &number) ||
        __builtin_add_overflow(whole.first, number, &number)) {
      return too_large();
    }
    return number;
  };
  PHALANX_TRY(const std::int64_t first, at(range.start));
  PHALANX_TRY(const std::int64_t last, at(range.stop));
  std::int64_t stride = 0;
  if (__builtin_mul_overflow(whole.step, range.step, &stride)) {
    return too_large();
  }
  std::vector<Value> items;
  for_each_index(range, [&](std::size_t i) { items.push_back(whole.items[i]); });
  return Value::range(first, last, stride, std::move(items));
}

Error unhashable(const Value& value) {
  return invalid_argument(std::string(value.type_name()) + " cannot be a key");
}

}  // namespace

Result<Value> apply_unary(Operator op, const Value& operand) {
  if (const auto* real = operand.get<double>()) {
    return Value(op == Operator::kNegate ? -*real : *real);
  }
  const auto integer = operand.as_integer();
  if (!integer.has_value()) {
    return undefined_or_mismatch(op == Operator::kNegate ? "-" : "+", operand, operand);
  }
  return op == Operator::kNegate ? integer_operation(Operator::kSubtract, 0, *integer)
                                 : Result<Value>(Value(*integer));
}

Result<Value> apply_binary(Interpreter& interpreter,
                           Operator op,
                           const Value& left,
                           const Value& right) {
  if (left.as_integer() && right.as_integer()) {
    return integer_operation(op, *left.as_integer(), *right.as_integer());
  }
  if (left.as_number() && right.as_number()) {
    return float_operation(op, *left.as_number(), *right.as_number());
  }
  if (op == Operator::kAdd) {
    return join_sequences(interpreter, left, right);
  }
  if (op == Operator::kMultiply && is_sequence(left) && right.as_integer()) {
    return repeat(interpreter, left, *right.as_integer());
  }
  if (op == Operator::kMultiply && is_sequence(right) && left.as_integer()) {
    return repeat(interpreter, right, *left.as_integer());
  }
  return undefined_or_mismatch(symbol_of(op), left, right);
}

Result<bool> is_contained(const Value& haystack, const Value& needle) {
  if (const MarkedText* text = haystack.as_text()) {
    if (const MarkedText* part = needle.as_text()) {
      return find_text(text->view(), part->view()) != std::string_view::npos;
    }
    return undefined_or_mismatch("in", needle, haystack);
  }
  if (const Dict* dict = haystack.as_dict()) {
    if (!is_hashable(needle)) {
      return unhashable(needle);
    }
    const MarkedText* const key = needle.as_text();
    return key != nullptr && dict->find(key->view()) != nullptr;
  }
  if (const List* list = haystack.as_list()) {
    return std::any_of(list->items.begin(), list->items.end(), [&](const Value& item) {
      return equal(item, needle);
    });
  }
  if (const Iterable* iterable = haystack.as_iterable()) {
    if (iterable->name == "dict_keys" && !is_hashable(needle)) {
      return unhashable(needle);
    }
    const auto begin = iterable->items.begin() + static_cast<std::ptrdiff_t>(iterable->next);
    const auto found = std::find_if(
        begin, iterable->items.end(), [&](const Value& item) { return equal(item, needle); });
    if (iterable->is_once) {
      // A generator has been gone through up to there.
      iterable->next = static_cast<std::size_t>(found - iterable->items.begin()) +
                       (found == iterable->items.end() ? 0U : 1U);
    }
    return found != iterable->items.end();
  }
  if (haystack.is_undefined()) {
    return false;
  }
  return invalid_argument(std::string(haystack.type_name()) + " has no elements");
}

Result<bool> apply_comparison(Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::kEqual:
      return equal(left, right);
    case Operator::kNotEqual:
      return !equal(left, right);
    case Operator::kIn:
      return is_contained(right, left);
    case Operator::kNotIn: {
      PHALANX_TRY(const bool found, is_contained(right, left));
      return !found;
    }
    default:
      break;
  }
  PHALANX_TRY(const int order, compare(left, right));
  switch (op) {
    case Operator::kLess:
      return order < 0;
    case Operator::kLessEqual:
      return order <= 0;
    case Operator::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

Result<Value> slice_of(Interpreter& interpreter,
                       const Value& object,
                       const Value& start,
                       const Value& stop,
                       const Value& step) {
  if (const List* list = object.as_list()) {
    PHALANX_TRY(const SliceRange range, slice_range(list->items.size(), start, stop, step));
    std::vector<Value> items;
    for_each_index(range, [&](std::size_t i) { items.push_back(list->items[i]); });
    PHALANX_RETURN_IF_ERROR(interpreter.charge(items.size() * sizeof(Value)));
    return Value::list(std::move(items), list->is_tuple);
  }
  if (const MarkedText* text = object.as_text()) {
    PHALANX_RETURN_IF_ERROR(interpreter.charge(text->size()));
    const std::vector<std::size_t> offsets = character_offsets(text->view());
    PHALANX_TRY(const SliceRange range, slice_range(offsets.size() - 1, start, stop, step));
    return Value::text(slice_text(*text, range, offsets));
  }
  if (const Iterable* range_of = object.as_iterable();
      range_of != nullptr && range_of->is_range()) {
    return slice_of_range(*range_of, start, stop, step);
  }
  if (const auto* undefined = object.get<Value::Undefined>()) {
    return invalid_argument(*undefined->reason);
  }
  return invalid_argument(std::string(object.type_name()) + " cannot be sliced");
}

}  // namespace phalanx::jinja
