// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx::serving {

// Looks for stop strings in text that arrives in pieces. Text that may still turn out to be the
// beginning of a stop string is withheld, and only that; a match is found wherever it lies, also
// across pieces or inside one.
//
// Threads: one at a time. Copyable.
class StopScanner {
 public:
  // Empty stop strings must have been refused before.
  StopScanner(std::vector<std::string> stops, bool include_stop_in_output);

  struct Output {
    std::string text;  // to be shown now
    std::optional<std::string>
        match;  // the stop string that ended the text; nothing is shown after it
  };

  // What ends in a piece that must not end the text is no match, but a match may begin there.
  // Must not be called after a match.
  [[nodiscard]] Output push(std::string_view piece, bool may_end = true);

  // The end of the text: what was withheld is no stop string.
  [[nodiscard]] std::string finish();

  [[nodiscard]] std::size_t withheld_bytes() const { return withheld_.size(); }

 private:
  std::vector<std::string> stops_;
  bool include_stop_in_output_;
  std::string withheld_;
};

}  // namespace phalanx::serving
