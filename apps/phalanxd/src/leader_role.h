// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace phalanx::app {

// The life of the leader, from its command line to its exit status.
[[nodiscard]] int run_leader(const std::vector<std::string>& arguments,
                             const std::map<std::string, std::string>& environment);

}  // namespace phalanx::app
