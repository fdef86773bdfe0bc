// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "phalanx/base/result.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

struct RegularFile {
  UniqueFd fd;
  std::size_t size = 0;  // as it was opened
};

// Opens a file for reading, without waiting for a pipe or device. Waits for whoever has a lease on
// it.
//
// Errors: as read_file()
[[nodiscard]] Result<RegularFile> open_regular_file(const std::string& path);

}  // namespace phalanx::os
