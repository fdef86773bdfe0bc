// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace phalanx::bench {

// Of a program whose arguments are numbers by their place: whether one of them is none, but asks
// what they are.
[[nodiscard]] inline bool asks_for_help(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](std::string_view argument) {
    return argument == "-h" || argument == "--help";
  });
}

// The argument at this place as a whole number, `fallback` where there is none; nothing if it is
// none, or not from `least` to `most`.
[[nodiscard]] inline std::optional<long> number_at(
    int argc, char** argv, int index, long fallback, long least, long most) {
  if (index >= argc) {
    return fallback;
  }
  const std::string_view text = argv[index];
  long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) {
    return std::nullopt;
  }
  return number;
}

}  // namespace phalanx::bench
