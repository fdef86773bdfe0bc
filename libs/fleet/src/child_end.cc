// SPDX-License-Identifier: Apache-2.0
#include "child_end.h"

#include <csignal>
#include <variant>

namespace phalanx::fleet {

Error end_of_child(const std::string& what,
                   const std::string& model,
                   const supervise::Death& death) {
  std::string text = what + " " + supervise::describe_for_log(death);
  const auto* signaled = std::get_if<os::Signaled>(&death.reason);
  if (signaled != nullptr && signaled->signal == SIGBUS) {
    text += ": most likely " + model +
            ", or a file of it, became shorter while it was read, or its disk failed";
  }
  const auto* exited = std::get_if<os::Exited>(&death.reason);
  const bool exhausted =
      exited != nullptr && exited->status == error_traits(Code::kResourceExhausted).exit_status;
  return exhausted ? resource_exhausted(text) : unavailable(text);
}

}  // namespace phalanx::fleet
