// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace phalanx {

// The release this binary was built as, from the CMake project version.
inline constexpr std::string_view kVersion = PHALANX_VERSION;

}  // namespace phalanx
