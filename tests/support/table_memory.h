// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "phalanx/step/sequence_table.h"

namespace phalanx::testing {

// A sequence table with memory of its own.
class TableMemory {
 public:
  TableMemory(const step::RankLimits& limits, std::uint32_t vocab)
      : words_((step::SequenceTable::bytes_for(limits) + 7) / 8),
        table_(step::SequenceTable::map(std::as_writable_bytes(std::span(words_)), limits, vocab)
                   .value()) {}
  TableMemory(const TableMemory&) = delete;
  TableMemory& operator=(const TableMemory&) = delete;

  [[nodiscard]] step::SequenceTable& operator*() { return table_; }
  [[nodiscard]] step::SequenceTable* operator->() { return &table_; }

 private:
  std::vector<std::uint64_t> words_;
  step::SequenceTable table_;
};

}  // namespace phalanx::testing
