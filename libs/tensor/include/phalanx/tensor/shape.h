// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "phalanx/base/check.h"

namespace phalanx::tensor {

inline constexpr std::size_t kMaxRank = 4;
inline constexpr std::size_t kRowAlignment = 64;  // bytes: a cache line and a full vector register

// The extents of a tensor, outermost first. At most kMaxRank axes; an empty list is a scalar.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::size_t> extents);

  // Nothing when there are more than kMaxRank extents, or their product does not fit in 64 bits.
  [[nodiscard]] static std::optional<Shape> from(std::span<const std::uint64_t> extents);

  [[nodiscard]] std::size_t rank() const { return rank_; }
  [[nodiscard]] std::size_t operator[](std::size_t axis) const;
  [[nodiscard]] std::size_t elements() const;
  [[nodiscard]] std::string to_string() const;  // "[1024, 3072]"

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::size_t, kMaxRank> extents_{};
  std::size_t rank_ = 0;
};

// A row-major matrix that somebody else owns. Element (row, column) is data[row * stride + column];
// columns beyond `columns` up to `stride` belong to the owner.
template <typename T>
struct MatrixView {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t stride = 0;  // elements from one row to the next; ≥ columns

  [[nodiscard]] T* row(std::size_t index) const {
    PHALANX_DCHECK(index < rows, "row index out of range");
    return data + index * stride;
  }
};

[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The smallest stride ≥ columns that keeps every row of a 64-byte-aligned matrix aligned.
template <typename T>
[[nodiscard]] constexpr std::size_t aligned_stride(std::size_t columns) {
  return round_up(columns, kRowAlignment / sizeof(T));
}

}  // namespace phalanx::tensor
