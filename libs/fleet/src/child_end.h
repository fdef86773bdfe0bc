// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/base/error.h"
#include "phalanx/supervise/death_log.h"

namespace phalanx::fleet {

// Of a child that was to do one thing and could not say what ended it: memory and threads by its
// exit status. `what` is "the loader".
[[nodiscard]] Error end_of_child(const std::string& what, const supervise::Death& death);

}  // namespace phalanx::fleet
