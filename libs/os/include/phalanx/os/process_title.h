// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace phalanx::os {

// The command line of this process as ps and /proc show it, which is the memory where the kernel
// put argv.
//
// Ownership: borrows argv for the life of the process.
// Threads: one.
class ProcessTitle {
 public:
  // `argv` is what main() was given.
  ProcessTitle(int argc, char** argv);

  // Writes `title` over the arguments, cut to the room that they take; argv says nothing
  // afterwards.
  void set(std::string_view title);

 private:
  std::span<char> room_;
};

}  // namespace phalanx::os
