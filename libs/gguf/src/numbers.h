// SPDX-License-Identifier: Apache-2.0
// Little-endian numbers at any address, and the sizes of the file's value types.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

#include "phalanx/gguf/metadata.h"

namespace phalanx::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in memory");

template <typename T>
[[nodiscard]] T load(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// 0 for a string, an array, or a number that is no type.
[[nodiscard]] constexpr std::size_t bytes_of(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kBool:
      return 1;
    case ValueType::kUint16:
    case ValueType::kInt16:
      return 2;
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kFloat32:
      return 4;
    case ValueType::kUint64:
    case ValueType::kInt64:
    case ValueType::kFloat64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      break;
  }
  return 0;
}

[[nodiscard]] constexpr bool is_number(ValueType type) {
  return bytes_of(type) != 0 && type != ValueType::kBool;
}

}  // namespace phalanx::gguf
