// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "phalanx/base/error.h"

namespace phalanx {

// An exception of a library as the error that ends a program: memory and threads that are refused
// are kResourceExhausted and name the limit that may be too low, all else is a defect.
// Threads: any.
[[nodiscard]] Error error_of(const std::exception& exception);

}  // namespace phalanx
