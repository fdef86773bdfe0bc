// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace phalanx::app {

// The life of the leader, from its command line to its exit status. `worker_program` is the name of
// the one beside it that its workers are.
[[nodiscard]] int run_leader(const std::vector<std::string>& arguments,
                             const std::map<std::string, std::string>& environment,
                             const std::string& worker_program);

}  // namespace phalanx::app
