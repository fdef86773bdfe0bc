// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

// Where rows begin that lie `stride` bytes apart. Of many rows one of three has a register, and the
// two after it are addresses of instructions: g++ would otherwise keep a pointer to every place
// within them, and spill.
template <std::size_t kRows>
class RowPointers {
 public:
  PHALANX_LANES RowPointers(const void* first, std::size_t stride)
      : first_(static_cast<const std::byte*>(first)), stride_(stride) {
    if constexpr (kIsMany) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kKept; ++i) {
        kept_[i] = first_ + 3 * i * stride;
        asm("" : "+r"(kept_[i]));
      }
    }
  }
  PHALANX_LANES const void* operator[](std::size_t row) const {
    if constexpr (kIsMany) {
      return kept_[row / 3] + row % 3 * stride_;
    } else {
      return first_ + row * stride_;
    }
  }

  // The same rows from some bytes on.
  struct From {
    const RowPointers& rows;
    std::size_t bytes;

    PHALANX_LANES const void* operator[](std::size_t row) const {
      return static_cast<const std::byte*>(rows[row]) + bytes;
    }
  };
  [[nodiscard]] PHALANX_LANES From from(std::size_t bytes) const {
    return {*this, bytes};
  }

 private:
  static constexpr bool kIsMany = kRows > 4;
  static constexpr std::size_t kKept = (kRows + 2) / 3;

  const std::byte* first_;
  const std::byte* kept_[kKept];
  std::size_t stride_;
};

// As RowPointers, where `stride` is a constant: one register for all rows, which are addresses of
// instructions, wherever they are read from.
class NearRows {
 public:
  PHALANX_LANES NearRows(const void* first, std::size_t stride)
      : first_(static_cast<const std::byte*>(first)), stride_(stride) {}

  PHALANX_LANES const void* operator[](std::size_t row) const { return first_ + row * stride_; }
  [[nodiscard]] PHALANX_LANES NearRows from(std::size_t bytes) const {
    const std::byte* first = first_ + bytes;
    asm("" : "+r"(first));
    return {first, stride_};
  }

 private:
  const std::byte* first_;
  std::size_t stride_;
};

}  // namespace
}  // namespace phalanx::kernels
