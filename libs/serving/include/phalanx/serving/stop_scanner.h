// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx::serving {

// Looks for stop strings in text that arrives in pieces. Text that may still turn out to be the
// beginning of a stop string is withheld, and only that; a match is found wherever it lies, also
// across pieces or inside one. Of several the one that ends first counts, and of those that end
// together the longest, so that it does not matter where a piece ends. A byte of text costs the
// same whatever came before it, for each stop string.
//
// Ownership: copies share the stop strings.
// Threads: one at a time.
class StopScanner {
 public:
  // Empty stop strings must have been refused before.
  StopScanner(const std::vector<std::string>& stops, bool include_stop_in_output);

  struct Output {
    std::string text;  // to be shown now
    std::optional<std::string>
        match;  // the stop string that ended the text; nothing is shown after it
  };

  // What ends in a piece that must not end the text is no match, but a match may begin there.
  // Must not be called after a match.
  [[nodiscard]] Output push(std::string piece, bool may_end = true);

  // The end of the text: what was withheld is no stop string.
  [[nodiscard]] std::string finish();

  // There is nothing to look for.
  [[nodiscard]] bool is_idle() const { return begun_.empty(); }

  [[nodiscard]] std::size_t withheld_bytes() const { return withheld_.size(); }

 private:
  struct Stop {
    explicit Stop(std::string text);
    [[nodiscard]] std::size_t longer(std::size_t begun, char byte) const;

    std::string bytes;
    // Of the first i + 1 bytes, the longest beginning that is an end of them, too, and shorter.
    std::vector<std::size_t> borders;
  };

  [[nodiscard]] std::size_t look_for(std::size_t index, std::string_view piece);

  std::shared_ptr<const std::vector<Stop>> stops_;
  std::vector<std::size_t> begun_;  // of each: the longest beginning that the text ends with
  bool include_stop_in_output_;
  std::string withheld_;
};

}  // namespace phalanx::serving
