// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/stop_scanner.h"

#include <algorithm>
#include <utility>

namespace phalanx::serving {

namespace {

// Length of the longest suffix of `text` that is a proper prefix of `stop`.
std::size_t open_suffix(std::string_view text, std::string_view stop) {
  for (std::size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.substr(text.size() - length) == stop.substr(0, length)) {
      return length;
    }
  }
  return 0;
}

}  // namespace

StopScanner::StopScanner(std::vector<std::string> stops, bool include_stop_in_output)
    : stops_(std::move(stops)), include_stop_in_output_(include_stop_in_output) {}

StopScanner::Output StopScanner::push(std::string_view piece, bool may_end) {
  if (stops_.empty()) {
    return {std::string(piece), std::nullopt};
  }
  std::string text = std::exchange(withheld_, {});
  const std::size_t seen = text.size();
  text += piece;

  std::size_t first = std::string::npos;
  const std::string* matched = nullptr;
  for (const std::string& stop : stops_) {
    // What ends in text that was seen is none: it ended where it must not.
    const std::size_t from = seen - std::min(seen, stop.size() - 1);
    const std::size_t at = may_end ? text.find(stop, from) : std::string::npos;
    if (at < first) {
      first = at;
      matched = &stop;
    }
  }
  if (matched != nullptr) {
    text.resize(first + (include_stop_in_output_ ? matched->size() : 0));
    return {std::move(text), *matched};
  }

  std::size_t open = 0;
  for (const std::string& stop : stops_) {
    open = std::max(open, open_suffix(text, stop));
  }
  withheld_ = text.substr(text.size() - open);
  text.resize(text.size() - open);
  return {std::move(text), std::nullopt};
}

std::string StopScanner::finish() {
  return std::exchange(withheld_, {});
}

}  // namespace phalanx::serving
