// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace phalanx {

// What a clone has in the place of a large file that was not fetched. Such a file is of text, and
// shorter than any that it stands for.
[[nodiscard]] constexpr bool is_git_lfs_pointer(std::string_view contents) {
  constexpr std::size_t kMaxPointerBytes = 1024;
  return contents.size() < kMaxPointerBytes &&
         contents.starts_with("version https://git-lfs.github.com/spec/");
}

// Behind the name of the file.
inline constexpr std::string_view kGitLfsPointerFound =
    ": expected the file, found a pointer of Git LFS to it: `git lfs pull` in its folder fetches "
    "it";

}  // namespace phalanx
