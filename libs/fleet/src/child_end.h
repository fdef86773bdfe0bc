// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/base/error.h"
#include "phalanx/supervise/death.h"

namespace phalanx::fleet {

// Of a child that was to read `model`, a path, and could not say what ended it: memory and threads
// by its exit status, a file that has no bytes where it had some by SIGBUS. `what` is "the loader".
[[nodiscard]] Error end_of_child(const std::string& what,
                                 const std::string& model,
                                 const supervise::Death& death);

}  // namespace phalanx::fleet
