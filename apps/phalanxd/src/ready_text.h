// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "phalanx/settings/options.h"

namespace phalanx::app {

// What is told on standard output when the server is ready: where it is reached, and a request to
// try.
[[nodiscard]] std::string ready_text(const settings::Options& options,
                                     std::uint16_t port,
                                     const std::string& model);

}  // namespace phalanx::app
