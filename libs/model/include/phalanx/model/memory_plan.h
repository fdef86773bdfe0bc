// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/config.h"
#include "phalanx/kernels/layout.h"
#include "phalanx/model/shard_plan.h"
#include "phalanx/step/limits.h"

namespace phalanx::model {

// Bytes of the memory that one rank slot has of its own.
struct RankMemory {
  std::size_t kv = 0;
  std::size_t scratch = 0;
  std::size_t sequence_table = 0;
  std::size_t result_ring = 0;
  std::size_t exchange = 0;  // of the whole group, with rank 0; a group of one has none
  std::size_t heap = 0;      // prepared arguments, step inputs, sampling tables

  [[nodiscard]] std::size_t total() const {
    return kv + scratch + sequence_table + result_ring + exchange + heap;
  }
};

// Errors: kInvalidArgument  a limit is zero or beyond what is possible (name, expected, found)
[[nodiscard]] Status check_limits(const checkpoint::ModelConfig& config,
                                  const step::RankLimits& limits);

// The one source of these sizes: they are what is planned, reserved and mapped. All but the heap
// are multiples of the page. `threads` of the rank make a difference to the heap alone, which is no
// region: who maps the others need not know them.
//
// Errors: as check_limits()
[[nodiscard]] Result<RankMemory> rank_memory(const checkpoint::ModelConfig& config,
                                             const Shard& shard,
                                             const step::RankLimits& limits,
                                             std::uint32_t threads = 1);

// What an operator asked for.
struct MemoryRequest {
  std::uint32_t replicas = 1;
  std::uint32_t ranks = 1;  // of each replica
  step::RankLimits limits;  // kv_blocks 0 = as many as fit, at most what max_num_seqs sequences of
                            // max_model_len tokens can use; max_model_len 0 = the model's own, or
                            // the largest that the KV blocks and the memory hold
  std::uint32_t cpus = 1;   // of all ranks together, at most: each of their threads has one
  std::uint64_t kv_memory_bytes = 0;  // of each replica: pays for limits.kv_blocks; 0 = not named
  std::size_t available_bytes = 0;

  [[nodiscard]] bool names_kv() const { return kv_memory_bytes > 0 || limits.kv_blocks > 0; }
  [[nodiscard]] std::uint32_t processes() const { return 1 + replicas * (1 + ranks); }
  // Of each rank. All ranks together have no more than as many times this, however the CPUs are
  // divided among them.
  [[nodiscard]] std::uint32_t threads() const {
    const std::uint32_t all = replicas * ranks;
    return cpus <= all ? 1 : (cpus + all - 1) / all;
  }
};

struct MemoryPlan {
  step::RankLimits limits;        // max_model_len and kv_blocks filled in
  std::size_t weights = 0;        // one arena, shared by all
  std::vector<RankMemory> ranks;  // by rank; the same in every replica
  std::size_t total = 0;          // weights + replicas · sum of ranks

  struct Row {
    std::string what;
    std::size_t bytes = 0;
  };
  // The figures to print, ending with the total.
  [[nodiscard]] std::vector<Row> rows(std::uint32_t replicas) const;
};

// Of the bytes that a machine has available, those to plan `request` with: what our processes need
// beside the plan is left out. All others when the size of the KV cache is named, else the weights,
// and of what they leave a share, so that there is room for the page cache and others.
[[nodiscard]] std::size_t memory_to_plan(std::uint64_t available,
                                         const checkpoint::ModelConfig& config,
                                         const MemoryRequest& request);

// Bytes that one KV block takes in all ranks of a replica together.
[[nodiscard]] Result<std::size_t> replica_block_bytes(const checkpoint::ModelConfig& config,
                                                      std::uint32_t ranks,
                                                      kernels::KvFormat format);

// Errors: kInvalidArgument    as rank_memory(); more ranks than the model has units; kv_memory_bytes
//                             below one block
//         kResourceExhausted  does not fit; the message names settings, in the operator's words,
//                             and the largest value of each that fits beside the others
[[nodiscard]] Result<MemoryPlan> plan_memory(const checkpoint::ModelConfig& config,
                                             const MemoryRequest& request);

}  // namespace phalanx::model
