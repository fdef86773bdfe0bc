// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

// Where rows begin that lie `stride` bytes apart. One of three has a register; the two after it are
// addresses of instructions. g++ would otherwise keep a pointer to every place within them, and
// spill.
template <std::size_t kRows>
class RowPointers {
 public:
  PHALANX_LANES RowPointers(const void* first, std::size_t stride) : stride_(stride) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kKept; ++i) {
      kept_[i] = static_cast<const std::byte*>(first) + 3 * i * stride;
      asm("" : "+r"(kept_[i]));
    }
  }
  PHALANX_LANES const void* operator[](std::size_t row) const {
    return kept_[row / 3] + row % 3 * stride_;
  }

 private:
  static constexpr std::size_t kKept = (kRows + 2) / 3;

  const std::byte* kept_[kKept];
  std::size_t stride_;
};

}  // namespace
}  // namespace phalanx::kernels
