// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace phalanx::flags {

// The candidate that `name` was probably meant to be: the one with the fewest letters to put in,
// leave out, replace or swap with a neighbour, if these are at most a third of `name` and at most
// three. Empty if there is none.
// Cost: the product of the lengths for each candidate.
[[nodiscard]] std::string closest(std::string_view name,
                                  const std::vector<std::string>& candidates);

}  // namespace phalanx::flags
