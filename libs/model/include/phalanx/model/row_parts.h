// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "phalanx/model/shard_plan.h"

namespace phalanx::model {

// A part of a row of logits: what one tile of the sampler reads.
struct RowPart {
  std::uint32_t row = 0;
  std::uint32_t parts = 1;  // that the row has
  std::uint32_t tile = 0;   // row · parts + which of them
  Run tokens;
};

// Divides rows into parts where there are fewer rows than threads, so that none of these has
// nothing to do. What is found in parts is merged exactly, so results do not depend on the
// division.
// Threads: any; different tiles on different ones.
class RowParts {
 public:
  // Parts have `least` tokens or more, whole cache lines of them but for the last.
  RowParts(Run tokens, std::uint32_t threads, std::uint32_t least, std::uint32_t rows_max)
      : tokens_(tokens), threads_(threads), least_(least), finished_(rows_max) {}

  // A row has one part, or all rows together have fewer than 2 · threads.
  [[nodiscard]] std::uint32_t parts(std::uint32_t rows) const {
    return rows == 0 ? 1 : divide(tokens_.count, tokens_of_part(rows));
  }

  [[nodiscard]] RowPart part(std::uint32_t rows, std::uint32_t tile) const {
    const std::uint32_t length = tokens_of_part(rows);
    RowPart part;
    part.parts = parts(rows);
    part.row = tile / part.parts;
    part.tile = tile;
    const std::uint32_t begin = tile % part.parts * length;
    part.tokens = {tokens_.first + begin, std::min(length, tokens_.count - begin)};
    return part;
  }

  // What was found in a part goes to own[row], or, where the row has several, to parts[tile]: who
  // comes last adds these up, in the order of the row. `found` may lie where it goes.
  template <typename Record, typename Add>
  void merge(
      const RowPart& part, const Record& found, std::vector<Record>& parts, Record* own, Add add) {
    if (part.parts == 1) {
      own[part.row] = found;
      return;
    }
    parts[part.tile] = found;
    std::atomic<std::uint32_t>& finished = finished_[part.row];
    if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 < part.parts) {
      return;
    }
    finished.store(0, std::memory_order_relaxed);
    const std::size_t first = std::size_t{part.row} * part.parts;
    own[part.row] = parts[first];
    for (std::uint32_t i = 1; i < part.parts; ++i) {
      add(&own[part.row], parts[first + i]);
    }
  }

  // After a phase that was not run to its end.
  void begin() {
    for (std::atomic<std::uint32_t>& finished : finished_) {
      finished.store(0, std::memory_order_relaxed);
    }
  }

 private:
  static constexpr std::uint32_t kLineTokens = 16;

  static std::uint32_t divide(std::uint32_t count, std::uint32_t by) {
    return std::max((count + by - 1) / by, 1U);
  }

  [[nodiscard]] std::uint32_t tokens_of_part(std::uint32_t rows) const {
    const std::uint32_t wanted = rows >= threads_ ? 1 : divide(threads_, rows);
    const std::uint32_t length = std::max(divide(tokens_.count, wanted), least_);
    return divide(length, kLineTokens) * kLineTokens;
  }

  Run tokens_;
  std::uint32_t threads_;
  std::uint32_t least_;
  std::vector<std::atomic<std::uint32_t>> finished_;
};

}  // namespace phalanx::model
