// SPDX-License-Identifier: Apache-2.0
#include "value_reader.h"

#include "phalanx/gguf/file.h"

namespace phalanx::gguf {
namespace {

constexpr std::uint32_t kValueTypes = 13;

Result<ValueType> read_type(Cursor& cursor) {
  PHALANX_TRY(const std::uint32_t number, cursor.number<std::uint32_t>("a value type"));
  if (number >= kValueTypes) {
    return data_loss("expected a value type below " + std::to_string(kValueTypes) + ", found " +
                     std::to_string(number));
  }
  return static_cast<ValueType>(number);
}

Status check_bools(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    if (std::to_integer<unsigned>(byte) > 1) {
      return data_loss("expected a bool of 0 or 1, found " +
                       std::to_string(std::to_integer<unsigned>(byte)));
    }
  }
  return ok();
}

struct ArrayHead {
  ValueType element = ValueType::kUint8;
  std::uint64_t count = 0;
};

// The least that an element takes: a string its length, an array its type and count.
std::size_t least_bytes(ValueType element) {
  constexpr std::size_t kString = 8;
  constexpr std::size_t kArray = 12;
  if (element == ValueType::kString) {
    return kString;
  }
  return element == ValueType::kArray ? kArray : bytes_of(element);
}

// Passes over an array, checking it.
Result<ArrayHead> pass_array(Cursor& cursor, std::size_t depth) {
  if (depth > kMaxArrayDepth) {
    return data_loss("expected arrays nested at most " + std::to_string(kMaxArrayDepth) +
                     " deep, found deeper ones");
  }
  ArrayHead head;
  PHALANX_TRY(head.element, read_type(cursor));
  PHALANX_TRY(head.count, cursor.count(least_bytes(head.element), "elements"));
  if (const std::size_t size = bytes_of(head.element); size != 0) {
    PHALANX_TRY(const auto bytes, cursor.take(head.count * size, "an array"));
    if (head.element == ValueType::kBool) {
      PHALANX_RETURN_IF_ERROR(check_bools(bytes));
    }
    return head;
  }
  for (std::uint64_t i = 0; i < head.count; ++i) {
    if (head.element == ValueType::kString) {
      PHALANX_RETURN_IF_ERROR(cursor.sized("a string"));
    } else {
      PHALANX_RETURN_IF_ERROR(pass_array(cursor, depth + 1));
    }
  }
  return head;
}

}  // namespace

Result<Value> read_value(Cursor& cursor) {
  Value value;
  PHALANX_TRY(value.type, read_type(cursor));
  if (value.type == ValueType::kString) {
    PHALANX_TRY(value.bytes, cursor.sized("a string"));
    return value;
  }
  if (value.type != ValueType::kArray) {
    PHALANX_TRY(value.bytes, cursor.take(bytes_of(value.type), "a value"));
    if (value.type == ValueType::kBool) {
      PHALANX_RETURN_IF_ERROR(check_bools(value.bytes));
    }
    return value;
  }
  Cursor elements = cursor;
  PHALANX_TRY(const ArrayHead head, pass_array(cursor, 1));
  constexpr std::size_t kHeadBytes = sizeof(std::uint32_t) + sizeof(std::uint64_t);
  PHALANX_RETURN_IF_ERROR(elements.take(kHeadBytes, "an array"));
  PHALANX_TRY(value.bytes, elements.take(cursor.position() - elements.position(), "an array"));
  value.element = head.element;
  value.count = head.count;
  return value;
}

}  // namespace phalanx::gguf
