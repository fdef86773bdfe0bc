// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

namespace phalanx::bench {

// Of a program whose arguments are numbers by their place: whether one of them is none, but asks
// what they are.
[[nodiscard]] inline bool asks_for_help(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](std::string_view argument) {
    return argument == "-h" || argument == "--help";
  });
}

}  // namespace phalanx::bench
