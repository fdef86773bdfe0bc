// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/process_title.h"

#include <algorithm>
#include <cstring>

namespace phalanx::os {

// The last byte stays zero: otherwise the kernel reads on into the environment.
ProcessTitle::ProcessTitle(int argc, char** argv) {
  if (argc < 1) {
    return;
  }
  char* end = argv[0] + std::strlen(argv[0]) + 1;
  for (int i = 1; i < argc && argv[i] == end; ++i) {
    end += std::strlen(end) + 1;
  }
  room_ = {argv[0], end};
}

void ProcessTitle::set(std::string_view title) {
  if (room_.empty()) {
    return;
  }
  std::fill(room_.begin(), room_.end(), '\0');
  std::copy_n(title.begin(), std::min(title.size(), room_.size() - 1), room_.begin());
}

}  // namespace phalanx::os
