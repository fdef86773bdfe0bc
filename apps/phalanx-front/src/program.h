// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "seams.h"

namespace phalanx::app {

// The whole program. Throws nothing: an exception is told in one line, as the exit status of its
// cause.
[[nodiscard]] int run_front(int argc, char** argv, const FrontSeams& seams);

}  // namespace phalanx::app
