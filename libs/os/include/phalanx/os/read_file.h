// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "phalanx/base/result.h"

namespace phalanx::os {

// The contents of a regular file. No other is waited for: it may have no end, or never begin.
//
// Blocks: reads the file.
// Errors: kNotFound         no such file, or a link that leads nowhere
//         kInvalidArgument  a folder, pipe, socket or device, or a file of more than `bytes_max`
//         else what its errno means; each names the path
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t bytes_max);

// Whether the folder has an entry of this name, be it a file that can be read or not. True also
// where that cannot be told, so that an attempt to read the file says why.
[[nodiscard]] bool has_entry(const std::string& path);

}  // namespace phalanx::os
