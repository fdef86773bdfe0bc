// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace phalanx::app {

// The whole program: the leader. `worker_program` is the name of the one beside it that its workers
// are. Throws nothing: an exception is told in one line, as the exit status of its cause.
[[nodiscard]] int run_phalanxd(int argc, char** argv, const std::string& worker_program);

}  // namespace phalanx::app
