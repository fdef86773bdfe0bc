// SPDX-License-Identifier: Apache-2.0
#include "dump_folder.h"

#include <unistd.h>

namespace phalanx::settings {

std::string dump_folder(const std::string& option,
                        const std::map<std::string, std::string>& environment) {
  if (!option.empty()) {
    return option;
  }
  if (const auto state = environment.find("XDG_STATE_HOME");
      state != environment.end() && state->second.starts_with('/')) {
    return state->second + "/phalanx/poisoned";
  }
  if (const auto home = environment.find("HOME");
      home != environment.end() && home->second.starts_with('/')) {
    return home->second + "/.local/state/phalanx/poisoned";
  }
  return "/tmp/phalanx-" + std::to_string(::getuid()) + "/poisoned";
}

}  // namespace phalanx::settings
