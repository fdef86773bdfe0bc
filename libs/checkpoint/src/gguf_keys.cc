// SPDX-License-Identifier: Apache-2.0
#include "gguf_keys.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace phalanx::checkpoint {

Result<std::uint32_t> GgufKeys::positive(std::string_view key, std::uint32_t most) const {
  const std::string full = name(key);
  const auto found = metadata_.values().find(full);
  if (found == metadata_.values().end() || found->second.type != gguf::ValueType::kArray) {
    PHALANX_TRY(const std::int64_t value, metadata_.integer(full, 1, most));
    return static_cast<std::uint32_t>(value);
  }
  PHALANX_TRY(const std::vector<std::int32_t> values, metadata_.integers(full));
  if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end()) {
    return unimplemented("key \"" + full +
                         "\": expected one number for all layers, found several: not supported");
  }
  if (values.empty() || values.front() < 1 || static_cast<std::uint32_t>(values.front()) > most) {
    return invalid_argument("key \"" + full + "\": expected numbers from 1 to " +
                            std::to_string(most) + ", found " +
                            (values.empty() ? "none" : std::to_string(values.front())));
  }
  return static_cast<std::uint32_t>(values.front());
}

}  // namespace phalanx::checkpoint
