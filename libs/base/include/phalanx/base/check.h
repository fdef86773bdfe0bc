// SPDX-License-Identifier: Apache-2.0
#pragma once

// PHALANX_CHECK ends the process when a condition that only a defect of ours can break does not
// hold; it is always on. Never use it on a value that came from outside the process: that is a
// Result. PHALANX_DCHECK is for debug builds only.
//
//   PHALANX_CHECK(index < size, "index out of range");

namespace phalanx {

// Prints "file:line: check failed: expression: message" to stderr and aborts.
[[noreturn]] void check_failed(const char* expression,
                               const char* file,
                               int line,
                               const char* message);

}  // namespace phalanx

#define PHALANX_CHECK(condition, message)                             \
  if (!(condition)) [[unlikely]]                                      \
    ::phalanx::check_failed(#condition, __FILE__, __LINE__, message); \
  else                                                                \
    static_cast<void>(0)

#ifdef NDEBUG
#define PHALANX_DCHECK(condition, message) \
  do {                                     \
  } while (false && (condition))
#else
#define PHALANX_DCHECK(condition, message) PHALANX_CHECK(condition, message)
#endif
