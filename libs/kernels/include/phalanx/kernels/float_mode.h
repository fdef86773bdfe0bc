// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace phalanx::kernels {

// The float mode of the arithmetic: round to nearest even, denormal inputs are zeros, denormal
// results become zeros, all exceptions masked. MXCSR belongs to the thread, so every thread that
// calls a kernel sets it; the threads of a ThreadTeam do so themselves.
void set_float_mode();

[[nodiscard]] bool float_mode_is_set();

// Sets the float mode and puts back what was there at the end of the scope.
class FloatModeScope {
 public:
  FloatModeScope();
  FloatModeScope(const FloatModeScope&) = delete;
  FloatModeScope& operator=(const FloatModeScope&) = delete;
  FloatModeScope(FloatModeScope&&) = delete;
  FloatModeScope& operator=(FloatModeScope&&) = delete;
  ~FloatModeScope();

 private:
  std::uint32_t saved_;
};

}  // namespace phalanx::kernels
