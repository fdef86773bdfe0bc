// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/step/sequence_table.h"
#include "phalanx/wire/rank_messages.h"

namespace phalanx::engine {

struct RunnerIdentity {
  std::uint64_t callables_hash = 0;
  std::uint64_t numerics_fingerprint = 0;
};

// Since the runner was made, except the times, which are of the last call.
struct RunnerCounters {
  std::uint64_t compute_us = 0;
  std::uint64_t collective_us = 0;
  std::uint64_t preparations = 0;
  std::uint64_t allocations = 0;
};

// What a rank's command loop drives: a shard of a model over the KV of its slot. Implemented by the
// rank program over the model library, and by SimRunner.
//
// Every wait and every kernel of init(), sanity() and step() polls the abort word of the epoch and
// returns kAborted when it is raised, within about a millisecond (S4); afterwards only init() of a
// newer epoch is called. Errors are typed; exceptions become kInternal in the loop.
//
// Threads: one, the rank's main thread.
class ModelRunner {
 public:
  ModelRunner() = default;
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;
  virtual ~ModelRunner() = default;

  [[nodiscard]] virtual Result<RunnerIdentity> identity() = 0;

  // Maps the communicator of `epoch`, which came over the control socket, and meets the peers.
  [[nodiscard]] virtual Status init(Epoch epoch) = 0;

  // A reduction of 1 over the group equals its size, and a pattern crosses every pair of ranks.
  [[nodiscard]] virtual Status sanity() = 0;

  // Computes `items` and samples: results[i].token, .logprob, .top_count and .top for every item
  // with `sample`, or .fault where one sequence, and it alone, cannot go on (all ranks agree); the
  // caller fills in the rest, and appends the token to the table. Items have been checked against
  // the table, which has their new blocks already: inputs are table.tokens(slot)[start … start +
  // count), their KV lies in table.blocks(slot). Must be idempotent: it writes only the KV of those
  // positions (S8). Allocates nothing and prepares nothing.
  [[nodiscard]] virtual Status step(const step::SequenceTable& table,
                                    std::span<const step::StepItem> items,
                                    std::span<step::SampleResult> results) = 0;

  // Every sequence is gone. With `zero_kv` the KV is made finite again.
  [[nodiscard]] virtual Status clear(bool zero_kv) = 0;

  [[nodiscard]] virtual RunnerCounters counters() const = 0;
};

}  // namespace phalanx::engine
