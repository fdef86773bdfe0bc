// SPDX-License-Identifier: Apache-2.0
#include "phalanx/supervise/death.h"

namespace phalanx::supervise {

std::string describe(const Death& death) {
  std::string text = os::to_string(death.reason);
  if (!death.cause.empty()) {
    text += ": " + death.cause;
  }
  return text;
}

std::string describe_for_log(const Death& death) {
  std::string text = describe(death);
  if (death.cause.empty() && !death.lines.empty()) {
    text += "; last log line: " + death.lines.back();
  }
  return text;
}

}  // namespace phalanx::supervise
