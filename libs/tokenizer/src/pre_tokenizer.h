// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/byte_ranges.h"
#include "phalanx/base/result.h"

#include "regular_expression.h"

namespace phalanx::tokenizer {

// Cuts text into the pieces that byte-pair encoding does not cross.
//
// Threads: split() may be called from any thread at the same time.
class PreTokenizer {
 public:
  // What becomes of the matches of a stage's pattern.
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

  // Adds a stage, which cuts each piece of the stages before it. `inverted` swaps matches and the
  // text between them.
  void add_stage(Regex pattern, Behavior behavior, bool inverted);

  // From the stages added so far to those added later, a piece that does not begin with a space
  // gets one before it.
  void add_prefix_space() { prefix_space_before_ = stages_.size(); }

  struct Pieces {
    std::string_view text;          // what the ranges mean: the text given, or `changed`
    std::vector<ByteRange> ranges;  // ascending, not empty
    std::string changed;
  };

  // The pieces of `text`; all of it if there is no stage. What is returned must not be moved, and
  // `text` must outlive it.
  //
  // Errors: as Regex::find().
  [[nodiscard]] Status split(std::string_view text, Pieces& pieces) const;

 private:
  struct Stage {
    Regex pattern;
    Behavior behavior;
    bool inverted;
  };

  [[nodiscard]] static Status run(const Stage& stage,
                                  std::string_view text,
                                  ByteRange piece,
                                  std::vector<ByteRange>& out);

  std::vector<Stage> stages_;
  std::optional<std::size_t> prefix_space_before_;  // number of the stage
};

}  // namespace phalanx::tokenizer
