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

 private:
  static constexpr bool kIsMany = kRows > 4;
  static constexpr std::size_t kKept = (kRows + 2) / 3;

  const std::byte* first_;
  const std::byte* kept_[kKept];
  std::size_t stride_;
};

}  // namespace
}  // namespace phalanx::kernels
