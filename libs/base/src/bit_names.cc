// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/bit_names.h"

namespace phalanx {

std::string bit_names(std::uint64_t bits, std::span<const std::string_view> names) {
  std::string text;
  for (std::size_t bit = 0; bit < names.size(); ++bit) {
    if ((bits >> bit & 1U) != 0) {
      text += (text.empty() ? "" : " ") + std::string(names[bit]);
    }
  }
  return text.empty() ? "-" : text;
}

}  // namespace phalanx
