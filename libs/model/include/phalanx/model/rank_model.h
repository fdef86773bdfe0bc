// SPDX-License-Identifier: Apache-2.0
// The model of one tensor-parallel rank: its share of the weights and of the KV cache, the prepared
// program of the forward pass, and the sampler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/checkpoint/config.h"
#include "phalanx/collective/communicator.h"
#include "phalanx/kernels/kernel_table.h"
#include "phalanx/kernels/thread_team.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/model/program.h"
#include "phalanx/model/sampled_token.h"
#include "phalanx/model/shard_plan.h"
#include "phalanx/model/weight_arena.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sequence_table.h"

namespace phalanx::model {

// The memory of a rank slot, mapped by its caller and outliving the model. Sizes: rank_memory().
struct RankRegions {
  std::span<const std::byte> weights;  // a filled arena; 64-byte aligned at least
  std::span<std::byte> kv;             // zeroed when new
  std::span<std::byte> scratch;        // any contents
  std::span<std::byte> exchange{};     // of the whole group; any contents
};

struct RankModelOptions {
  checkpoint::ModelConfig config;
  Shard shard;
  step::RankLimits limits;
  kernels::Isa isa = kernels::Isa::kRef;
  ProgramObserver observer;
  std::uint64_t (*allocation_counter)() = nullptr;  // by the calling thread; null = not counted
};

// What the latest step cost, and totals.
struct RankCounters {
  std::uint64_t steps = 0;
  std::uint64_t step_ns = 0;        // of the latest step, all of it
  std::uint64_t collective_ns = 0;  // of that, inside the communicator
  std::uint64_t preparations = 0;   // total: grows at creation, never in a step
  std::uint64_t allocations = 0;    // total inside step()
};

// Borrows the sequence table, which has the same limits, and reads it in steps.
// Threads: one at a time, the thread that made `team`.
class RankModel {
 public:
  // Errors: kInvalidArgument     a region is too small (name, expected, found); limits beyond the
  //                              configuration or a step; units or frequencies that are none
  //         kFailedPrecondition  the arena is not that of the configuration; the instruction set is
  //                              absent, or computes other numbers than this version does
  //         kDataLoss            the arena is of another size than its configuration asks
  [[nodiscard]] static Result<std::unique_ptr<RankModel>> create(const RankModelOptions& options,
                                                                 const RankRegions& regions,
                                                                 const step::SequenceTable& table,
                                                                 kernels::ThreadTeam& team);
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;
  ~RankModel();

  // The group of the current epoch; null = none. Borrowed until the next call.
  //
  // Errors: kInvalidArgument  its rank or world is not the shard's
  Status join(collective::Communicator* group);

  // Runs a batch of prefill chunks and decodes, one item per sequence, and returns one row per
  // item, valid until the next call. Inputs, positions, blocks and sampling are read from the
  // table, which stays as it is. Running a step twice gives the same KV, tokens and results. A row
  // with a fault of its own ends without a token (SampledToken); the others are what they would be
  // without it.
  //
  // Requires: each item passes table.check(), and the table has its new blocks; no two name one
  //           slot; together they are within the limits.
  // Allocates: nothing.
  // Errors: kFailedPrecondition  no group
  //         kDataLoss            a non-finite key or value
  //         kAborted, kDeadlineExceeded, kDataLoss of the communicator
  [[nodiscard]] Result<std::span<const SampledToken>> step(std::span<const step::StepItem> items);

  // Arithmetic version as computed here, weights and layout: replicas that differ must not take
  // over each other's streams.
  [[nodiscard]] std::uint64_t numerics_fingerprint() const;

  [[nodiscard]] const RankCounters& counters() const;
  [[nodiscard]] const Program& program() const;

  // From now on a step also copies this rank's raw logits of its sampling items, in their order and
  // shard().tokens.count apart, to `out`; an empty span ends it. For tools and tests.
  void keep_raw_logits(std::span<float> out);

 private:
  struct Impl;
  explicit RankModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace phalanx::model
