// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/stop_scanner.h"

#include <algorithm>
#include <utility>

namespace phalanx::serving {

StopScanner::Stop::Stop(std::string text) : bytes(std::move(text)), borders(bytes.size()) {
  for (std::size_t i = 1; i < bytes.size(); ++i) {
    borders[i] = longer(borders[i - 1], bytes[i]);
  }
}

// From the longest beginning that text ends with to that of the text and a further byte. Of all
// beginnings that text ends with, each is a border of the next longer one.
std::size_t StopScanner::Stop::longer(std::size_t begun, char byte) const {
  while (begun > 0 && bytes[begun] != byte) {
    begun = borders[begun - 1];
  }
  return bytes[begun] == byte ? begun + 1 : 0;
}

StopScanner::StopScanner(const std::vector<std::string>& stops, bool include_stop_in_output)
    : begun_(stops.size()), include_stop_in_output_(include_stop_in_output) {
  stops_ = std::make_shared<const std::vector<Stop>>(stops.begin(), stops.end());
}

// The bytes of the piece up to the first end of the stop string; 0: it does not end there.
std::size_t StopScanner::look_for(std::size_t index, std::string_view piece) {
  const Stop& stop = (*stops_)[index];
  std::size_t begun = begun_[index];
  std::size_t end = 0;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    begun = stop.longer(begun, piece[i]);
    if (begun == stop.bytes.size()) {
      end = end == 0 ? i + 1 : end;
      begun = stop.borders.back();
    }
  }
  begun_[index] = begun;
  return end;
}

StopScanner::Output StopScanner::push(std::string piece, bool may_end) {
  if (is_idle()) {
    return {std::move(piece), std::nullopt};
  }
  const std::size_t seen = withheld_.size();
  std::string text = seen == 0 ? std::move(piece) : std::exchange(withheld_, {}) + piece;
  const std::string_view added = std::string_view(text).substr(seen);
  std::size_t first_end = std::string::npos;
  const Stop* matched = nullptr;
  for (std::size_t i = 0; i < begun_.size(); ++i) {
    const Stop& stop = (*stops_)[i];
    const std::size_t end = look_for(i, added);
    const bool is_longer = matched != nullptr && stop.bytes.size() > matched->bytes.size();
    if (end > 0 && may_end && (end < first_end || (end == first_end && is_longer))) {
      first_end = end;
      matched = &stop;
    }
  }
  if (matched != nullptr) {
    text.resize(seen + first_end - (include_stop_in_output_ ? 0 : matched->bytes.size()));
    return {std::move(text), matched->bytes};
  }
  const std::size_t open = *std::max_element(begun_.begin(), begun_.end());
  withheld_.assign(text, text.size() - open);
  text.resize(text.size() - open);
  return {std::move(text), std::nullopt};
}

std::string StopScanner::finish() {
  return std::exchange(withheld_, {});
}

}  // namespace phalanx::serving
