// SPDX-License-Identifier: Apache-2.0
#include "suggestion.h"

#include <algorithm>

namespace phalanx::flags {

namespace {

constexpr std::size_t kMostEdits = 3;

// Edit distance in which no letter is touched twice (optimal string alignment).
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    last[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string closest(std::string_view name, const std::vector<std::string>& candidates) {
  std::size_t fewest = std::min(kMostEdits, std::max<std::size_t>(name.size() / 3, 1)) + 1;
  std::string result;
  for (const std::string& candidate : candidates) {
    const std::size_t difference = candidate.size() > name.size() ? candidate.size() - name.size()
                                                                  : name.size() - candidate.size();
    if (difference >= fewest) {
      continue;
    }
    if (const std::size_t count = edits(name, candidate); count < fewest) {
      fewest = count;
      result = candidate;
    }
  }
  return result;
}

}  // namespace phalanx::flags
