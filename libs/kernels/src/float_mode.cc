// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/float_mode.h"

#include <xmmintrin.h>

namespace phalanx::kernels {

namespace {

constexpr std::uint32_t kFlushToZero = 0x8000;
constexpr std::uint32_t kAllExceptionsMasked = 0x1F80;
constexpr std::uint32_t kDenormalsAreZero = 0x0040;
// Rounding control 00 is round to nearest even.
constexpr std::uint32_t kFloatMode = kFlushToZero | kAllExceptionsMasked | kDenormalsAreZero;
constexpr std::uint32_t kStickyFlags = 0x003F;

}  // namespace

void set_float_mode() {
  _mm_setcsr(kFloatMode);
}

bool float_mode_is_set() {
  return (_mm_getcsr() & ~kStickyFlags) == kFloatMode;
}

FloatModeScope::FloatModeScope() : saved_(_mm_getcsr()) {
  set_float_mode();
}

FloatModeScope::~FloatModeScope() {
  _mm_setcsr(saved_);
}

}  // namespace phalanx::kernels
