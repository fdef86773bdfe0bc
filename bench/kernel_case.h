// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace phalanx::bench {

// One thing to measure. `run` does it once, the more often the further into memory.
struct Case {
  std::string name;  // as members of a JSON object
  std::string row;   // for people
  double operations = 0.0;
  double bytes = 0.0;  // of weights, keys and values
  std::function<void(std::size_t turn)> run;
  std::vector<double> seconds;
};

}  // namespace phalanx::bench
