// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace phalanx::settings {

// Where dumps of requests that end what computes them go: `option` if it is given, else
// phalanx/poisoned below $XDG_STATE_HOME or $HOME/.local/state of `environment`, else
// phalanx-UID/poisoned below /tmp.
[[nodiscard]] std::string dump_folder(const std::string& option,
                                      const std::map<std::string, std::string>& environment);

}  // namespace phalanx::settings
