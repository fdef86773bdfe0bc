// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/split_list.h"

#include <algorithm>

namespace phalanx {

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::size_t first = std::min(text.find_first_not_of(' ', begin), end);
    if (first < end) {
      items.push_back(text.substr(first, text.find_last_not_of(' ', end - 1) + 1 - first));
    }
    begin = end + 1;
  }
  return items;
}

}  // namespace phalanx
