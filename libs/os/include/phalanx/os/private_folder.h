// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "phalanx/base/result.h"

namespace phalanx::os {

// A folder of this process's user for its own small files, which others may not read: each is there
// as a whole or not at all, and of those whose names begin with the prefix the last by name remain.
// Whatever else lies there is left alone.
//
// Threads: one.
// Blocks: for small files.
// Errors: those of the file system, naming the path.
class PrivateFolder {
 public:
  PrivateFolder(std::string path, std::string prefix, std::size_t files_max);

  // Whether the folder is there, or can be made, and this user may write in it. Makes nothing.
  [[nodiscard]] Status check() const;

  // A new file of that name behind the prefix, in a folder that is made where there is none.
  // Returns its path. It remains, whatever the others are called.
  // Errors: also kFailedPrecondition if the folder belongs to somebody else
  [[nodiscard]] Result<std::string> write(const std::string& name, std::string_view content) const;

 private:
  [[nodiscard]] Status make() const;
  void remove_first(const std::string& kept) const;

  std::string path_;
  std::string prefix_;
  std::size_t files_max_;
};

}  // namespace phalanx::os
