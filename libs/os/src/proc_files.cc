// SPDX-License-Identifier: Apache-2.0
#include "proc_files.h"

#include <charconv>
#include <fstream>
#include <sstream>

namespace phalanx::os {

std::optional<std::string> read_small_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return std::nullopt;
  }
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  const std::size_t last = text.find_last_not_of(" \t\n");
  if (first == std::string_view::npos) {
    return std::nullopt;
  }
  text = text.substr(first, last - first + 1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::uint64_t> number_after(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.substr(0, name.size()) == name && line.substr(name.size(), 1) == ":") {
      line.remove_prefix(name.size() + 1);
      if (line.ends_with(" kB")) {
        line.remove_suffix(3);
      }
      return whole_number(line);
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::nullopt;
}

}  // namespace phalanx::os
