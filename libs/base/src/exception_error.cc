// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/exception_error.h"

#include <new>
#include <string>
#include <system_error>

namespace phalanx {

Error error_of(const std::exception& exception) {
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    return resource_exhausted("out of memory: none is left, or ulimit -v is too low");
  }
  if (const auto* const refusal = dynamic_cast<const std::system_error*>(&exception)) {
    Error cause = errno_error(
        "a thread or a descriptor is refused (see ulimit -u, -n and -d, and the number of "
        "processes that a "
        "container or unit may have)",
        refusal->code().value());
    if (cause.code() == Code::kResourceExhausted) {
      return cause;
    }
  }
  return internal_error("unexpected: " + std::string(exception.what()));
}

}  // namespace phalanx
