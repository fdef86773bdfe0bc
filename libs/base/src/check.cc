// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace phalanx {

void check_failed(const char* expression, const char* file, int line, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, expression, message);
  std::abort();
}

}  // namespace phalanx
