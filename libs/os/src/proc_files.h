// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace phalanx::os {

// The content of a small file of /proc or /sys; nothing if it cannot be read.
[[nodiscard]] std::optional<std::string> read_small_file(const std::string& path);

// The number after "name:" at the start of a line, as in /proc/meminfo; nothing if there is none.
[[nodiscard]] std::optional<std::uint64_t> number_after(std::string_view text,
                                                        std::string_view name);

// The whole text as a number; nothing if it is something else ("max").
[[nodiscard]] std::optional<std::uint64_t> whole_number(std::string_view text);

}  // namespace phalanx::os
