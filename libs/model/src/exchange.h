// SPDX-License-Identifier: Apache-2.0
// The memory in which the ranks of a group exchange rows in steps of many: each leaves what its
// leaves add up to, then each sums and norms a part of the rows, and all read them as the input of
// their products.
#pragma once

#include <cstddef>
#include <cstdint>

#include "phalanx/checkpoint/config.h"
#include "phalanx/model/shard_plan.h"
#include "phalanx/step/limits.h"

namespace phalanx::model {

// From here on two meetings cost less than what every rank would do for all rows: a step of 16
// sequences takes 0.3 to 2 % less so, of 4 and 8 as long within 1 % (Zen 4, two ranks).
inline constexpr std::uint32_t kExchangedRows = 16;

// The input of a product with weights of a format, for some rows of `hidden` columns. Offsets are
// from the beginning of the memory.
struct SharedInput {
  std::size_t rows = 0;  // bf16; for weights of integers the others
  std::size_t codes = 0;
  std::size_t sums = 0;
  std::size_t scales = 0;
};

// Every part is written by each rank where nobody else writes, read by all behind a meeting, and
// written again behind another:
//
//   part     written by            read by               meeting between   and before the next writing
//   nodes    products o and down   sum and norm          "nodes"           "rows"
//   normed   sum and norm          q, k, v; gate, up     "rows"            "nodes"
//   x        "leave own rows"      "take rows"           "rows that        that of the logits, in which
//                                                        sample"           all candidates are gathered
//   sampled  norm of those rows    head                  "rows"            likewise
//
// The first norm of a step has no meeting before it. What it writes over was read in the step
// before, which is over for all ranks: a step is sent behind another that is not answered only
// where that one samples.
struct ExchangeLayout {
  SharedInput normed;     // [max_num_batched_tokens], of the layers
  SharedInput sampled;    // [max_num_seqs], of the head
  std::size_t x = 0;      // f32 [max_num_seqs][hidden], the residual stream of rows that sample
  std::size_t nodes = 0;  // f32 [nodes of all ranks][max_num_batched_tokens][hidden]
  std::size_t bytes = 0;
};

// Requires: ranks that plan_shard() takes.
[[nodiscard]] ExchangeLayout exchange_layout(const checkpoint::ModelConfig& config,
                                             const step::RankLimits& limits,
                                             std::uint32_t ranks);

}  // namespace phalanx::model
