// SPDX-License-Identifier: Apache-2.0
#include "child_end.h"

#include <variant>

namespace phalanx::fleet {

Error end_of_child(const std::string& what, const supervise::Death& death) {
  const std::string text = what + " " + supervise::describe_for_log(death);
  const auto* exited = std::get_if<os::Exited>(&death.reason);
  const bool exhausted =
      exited != nullptr && exited->status == error_traits(Code::kResourceExhausted).exit_status;
  return exhausted ? resource_exhausted(text) : unavailable(text);
}

}  // namespace phalanx::fleet
