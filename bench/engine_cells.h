// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/config.h"
#include "phalanx/step/limits.h"

#include "engine_group.h"
#include "engine_limit.h"

namespace phalanx::bench {

// One thing to measure.
struct Cell {
  bool is_prefill = false;
  std::uint32_t sequences = 1;
  std::uint32_t tokens = 0;  // of the prompt; of the context, for decode

  friend bool operator==(const Cell&, const Cell&) = default;
};

// How cells are cut into steps.
struct CellShape {
  std::uint32_t chunk = 512;  // tokens of a prompt in one step
  std::uint32_t steps = 8;    // of decode
  step::KvFormat kv_format = step::KvFormat::kBf16;
};

// Every prompt length, then every context with every batch, in the order given.
[[nodiscard]] std::vector<Cell> cells_of(const std::vector<std::uint32_t>& prompts,
                                         const std::vector<std::uint32_t>& batches,
                                         const std::vector<std::uint32_t>& contexts);

// KV blocks that the cell takes.
[[nodiscard]] std::uint32_t blocks_of(const Cell& cell, const CellShape& shape);

// What a rank must be prepared for to run each of the cells. Requires at least one.
[[nodiscard]] step::RankLimits limits_for(const std::vector<Cell>& cells, const CellShape& shape);

// Prefill: a prompt of random tokens in chunks, the last of which draws a token. Decode: one step
// more than is timed, each of one token for every sequence; earlier keys and values are what lies
// in the KV memory. Greedy.
[[nodiscard]] Job job_of(const Cell& cell, const CellShape& shape, std::uint32_t vocab);

// Tokens of the timed steps.
[[nodiscard]] double tokens_of(const Job& job);

// The least time of the timed steps, each with a limit of its own; `by_reading` if reading is the
// limit of most of that time.
[[nodiscard]] Limit limit_of_job(const checkpoint::ModelConfig& config,
                                 const Job& job,
                                 const Peaks& peaks);

// The middle one, or the mean of the two in the middle, and the ends. Requires at least one.
struct Spread {
  double median = 0.0;
  double min = 0.0;
  double max = 0.0;
};
[[nodiscard]] Spread spread_of(std::vector<double> samples);

// "128,512" as numbers, each from `min` to `max`.
//
// Errors: kInvalidArgument  naming the option and the part that is not
[[nodiscard]] Result<std::vector<std::uint32_t>> parse_numbers(const std::string& option,
                                                               const std::string& text,
                                                               std::uint32_t min,
                                                               std::uint32_t max);
[[nodiscard]] std::vector<std::string> split(const std::string& text);

}  // namespace phalanx::bench
