// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "phalanx/base/result.h"

#include "byte_ranges.h"
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

  // The pieces of `text`, ascending and not empty; all of `text` if there is no stage.
  //
  // Errors: as Regex::find().
  [[nodiscard]] Result<std::vector<ByteRange>> split(std::string_view text) const;

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
};

}  // namespace phalanx::tokenizer
