// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/config.h"

namespace phalanx::model {

inline constexpr std::uint32_t kMlpBlock = 32;    // columns of the MLP that belong together
inline constexpr std::uint32_t kVocabBlock = 16;  // tokens that share a packed tile

// A run of consecutive indices.
struct Run {
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  [[nodiscard]] std::uint32_t end() const { return first + count; }
  friend bool operator==(Run, Run) = default;
};

// Of `count` things, those of part `part` of `parts`, divided as a group of ranks divides the
// leaves of its tree (collective::leaf_run()): ⌊part·count/parts⌋ … ⌊(part+1)·count/parts⌋-1.
// Requires part < parts.
[[nodiscard]] Run run_of(std::uint32_t count, std::uint32_t part, std::uint32_t parts);

// How a model is cut into units: the leaves of the summation trees (docs/arithmetic.md). Depends on
// the model alone, never on the number of ranks.
struct Units {
  std::uint32_t attention = 0;   // KV-head groups
  std::uint32_t mlp = 0;         // runs of whole 32-column blocks
  std::uint32_t mlp_blocks = 0;  // 32-column blocks in all
  std::uint32_t mlp_step = 1;    // blocks that a run is a multiple of; divides them all
  std::uint32_t vocab_blocks = 0;

  // The 32-column blocks of MLP run `unit`.
  [[nodiscard]] Run mlp_blocks_of(std::uint32_t unit) const {
    const Run steps = run_of(mlp_blocks / mlp_step, unit, mlp);
    return {steps.first * mlp_step, steps.count * mlp_step};
  }
};
[[nodiscard]] Units units_of(const checkpoint::ModelConfig& config);

// What one rank of a tensor-parallel group owns: a contiguous run of each kind of unit. The counts
// need not divide.
struct Shard {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  Run attention;   // KV-head groups
  Run mlp;         // MLP runs
  Run mlp_blocks;  // their 32-column blocks
  Run vocab;       // vocabulary blocks
  Run tokens;      // the token ids of those blocks

  friend bool operator==(const Shard&, const Shard&) = default;
};

// Errors: kInvalidArgument  more ranks than there are units of some kind; the message names the
//                           kind and the largest possible number of ranks
[[nodiscard]] Result<Shard> plan_shard(const checkpoint::ModelConfig& config,
                                       std::uint32_t rank,
                                       std::uint32_t ranks);

}  // namespace phalanx::model
