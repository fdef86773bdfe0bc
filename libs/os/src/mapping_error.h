// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <string>

#include "phalanx/base/error.h"

namespace phalanx::os {

// Of mmap(2), which finds no addresses only where the process may not have more.
[[nodiscard]] inline Error mapping_error(const std::string& operation, int errno_value) {
  const bool is_full = errno_value == ENOMEM;
  return errno_error(is_full ? operation + " (is ulimit -v too low?)" : operation, errno_value);
}

}  // namespace phalanx::os
