// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/kernels/kernel_table.h"
#include "phalanx/kernels/vocab.h"
#include "phalanx/model/row_parts.h"

namespace phalanx::model {

struct CandidateFloors {
  float counted = 0.0F;  // what is below has no weight in the selection
  float listed = 0.0F;   // what is below is not kept by it
};

// What a selection found in a part of a row in its first pass.
struct Candidates {
  std::uint32_t row = 0;
  Run tokens;
  kernels::VocabKeep keep;         // tokens that have a weight in the selection
  bool is_listed = false;          // `list` has every token of the part that may still be kept
  kernels::VocabList list;         // memory of the owner
  std::int64_t unlisted_mass = 0;  // of the tokens that have a weight and are not listed

  // For a selection among the tokens of `kept`. A list that is there serves again.
  //   maximum  of the whole row
  void find(const kernels::KernelTable& kernels,
            const kernels::VocabSlice& slice,
            const kernels::VocabKeep& kept,
            const CandidateFloors& floors,
            float maximum);
};

// The candidates of all parts of rows. A list whose memory is too small is none, and its part is
// read in every pass instead; results are the same.
// Threads: different parts on different ones.
class CandidateLists {
 public:
  // Lists hold `tokens` tokens at most.
  CandidateLists(std::uint32_t tokens, std::uint32_t threads, std::uint32_t rows_max);

  // Bytes that these allocate.
  [[nodiscard]] static std::size_t heap_bytes(std::uint32_t tokens,
                                              std::uint32_t threads,
                                              std::uint32_t rows_max);

  // Starts a step: there are no candidates. Allocates nothing.
  void begin();

  // The candidates of a part of row `row`; anew where other ones were kept in this place, as when
  // selections divide their rows into different numbers of parts.
  [[nodiscard]] Candidates& of(std::uint32_t row, const RowPart& part);

 private:
  [[nodiscard]] static std::size_t places(std::uint32_t threads, std::uint32_t rows_max) {
    return rows_max + 2 * std::size_t{threads};
  }

  std::uint32_t rows_max_;
  std::vector<float> logits_;  // [place][token of a list], as ids_
  std::vector<TokenId> ids_;
  // [row] of undivided ones, behind them [tile] of divided ones.
  std::vector<Candidates> candidates_;
};

}  // namespace phalanx::model
