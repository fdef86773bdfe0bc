// SPDX-License-Identifier: Apache-2.0
// Records the forward pass and the sampling of one rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/config.h"
#include "phalanx/collective/summation_tree.h"
#include "phalanx/kernels/attention.h"
#include "phalanx/kernels/rope.h"
#include "phalanx/model/kv_layout.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/model/program.h"
#include "phalanx/model/sampler.h"
#include "phalanx/model/shard_plan.h"
#include "phalanx/model/weight_arena.h"
#include "phalanx/step/limits.h"

namespace phalanx::model {

// What a program is recorded for. It fits a team of other sizes too, and is fastest with this one.
struct ForwardShape {
  checkpoint::ModelConfig config;
  Shard shard;
  step::RankLimits limits;
  ArenaLayout arena;
  KvLayout kv;
  std::uint32_t threads = 1;  // of the team that will run it
};

// Memory that the program's owner keeps in place while the program lives, and fills before each
// step. Only the trees are needed to record a program that is measured and never run.
struct ForwardInputs {
  const TokenId* tokens = nullptr;                        // [rows]
  const std::uint32_t* positions = nullptr;               // [rows]
  const std::uint64_t* kv_slots = nullptr;                // [rows]
  const kernels::AttentionSequence* sequences = nullptr;  // [items]
  const std::uint32_t* sample_rows = nullptr;             // [sample rows], index of their row
  const std::uint32_t* sample_positions = nullptr;        // [sample rows]
  const kernels::AttentionSequence* sampled = nullptr;    // [sample rows], of these rows alone
  const kernels::RopeFrequencies* frequencies = nullptr;
  std::atomic<std::uint64_t>* non_finite = nullptr;
  const collective::TreePlan* attention_tree = nullptr;
  const collective::TreePlan* mlp_tree = nullptr;
  Sampler* sampler = nullptr;
};

// The buffers to bind.
struct ForwardBuffers {
  BufferId weights;
  BufferId kv;
  BufferId sequence_table;
  BufferId results;
  std::optional<BufferId> exchange;  // of a group of several ranks
};

struct ForwardProgram {
  Program program;
  ForwardBuffers buffers;
  std::size_t thread_floats = 0;  // of TaskRuntime; depends on neither threads nor limits
};

// How many records of attention a rank has room for: enough for the longest contexts of a few
// sequences; none where no context is long enough to be divided.
[[nodiscard]] std::uint32_t attention_records(const checkpoint::ModelConfig& config,
                                              const Shard& shard,
                                              const step::RankLimits& limits);

// Elements between two rows of logits.
[[nodiscard]] std::size_t logits_stride(const Shard& shard);

// Ownership: the program borrows what `inputs` names, and nothing of `shape`.
// Errors:    as ProgramRecorder::finish()
[[nodiscard]] Result<ForwardProgram> record_forward(const ForwardShape& shape,
                                                    const ForwardInputs& inputs);

}  // namespace phalanx::model
