// SPDX-License-Identifier: Apache-2.0
// Records over the inherited control socket: the bootstrap of a child, the communicators of later
// epochs, readiness.
// Contract: proto/control-socket.md. Descriptors travel beside a record, in the order its fields
// name them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/step/limits.h"

namespace phalanx::wire {

// What every child needs first.
// Descriptors: [0] lifeline page (memfd), [1] read end of the leader's lifeline pipe (end of file =
// exit); further ones as the role says.
struct ChildCommon {
  std::uint32_t protocol = 0;
  Boot boot{};
  Incarnation incarnation{};
  std::uint64_t secret = 0;
  std::int32_t parent_pid = 0;
  std::string endpoint{};   // ZeroMQ endpoint to connect to; empty for the loader
  std::string log_level{};  // trace … error
  friend bool operator==(const ChildCommon&, const ChildCommon&) = default;
};

// How the model is cut and sized: equal for a replica and its ranks.
struct ModelPlan {
  std::string model_config{};  // checkpoint::to_record(): only leader and loader open files
  std::string runner{};        // "cpu" or "sim"
  std::string isa{};           // name of the instruction set, chosen by the leader
  std::uint32_t tp = 1;
  step::RankLimits limits{};
  std::uint64_t sim_step_us = 0;
  std::uint64_t sim_token_us = 0;
  friend bool operator==(const ModelPlan&, const ModelPlan&) = default;
};

// Role replica. Further descriptors: [2] weight arena (sealed memfd; absent for runner "sim").
struct ReplicaBootstrap {
  ChildCommon common{};
  ReplicaId replica{};
  ModelPlan plan{};
  std::vector<std::vector<std::uint32_t>> rank_cpus{};  // one core set per rank
  std::uint32_t restart_limit = 0;                      // --restart-intensity: so many restarts …
  std::uint32_t restart_window_ms = 0;                  // … within so long
  bool prefix_cache = true;                             // --prefix-cache
  std::uint32_t max_step_ms = 0;                        // --max-step-ms; 0: no limit
  friend bool operator==(const ReplicaBootstrap&, const ReplicaBootstrap&) = default;
};

// Role rank. Further descriptors: [2] KV, [3] scratch, [4] sequence table, [5] result ring, [6]
// exchange, [7] weight arena (absent for "sim").
struct RankBootstrap {
  ChildCommon common{};
  ReplicaId replica{};
  RankId rank{};
  ModelPlan plan{};
  std::vector<std::uint32_t> cpus{};
  std::vector<std::pair<std::string, std::uint64_t>>
      region_bytes{};  // name and size of descriptors [2] … [6], checked
  friend bool operator==(const RankBootstrap&, const RankBootstrap&) = default;
};

// Role loader. Descriptor [2]: the arena memfd to fill, already of its size.
struct LoaderBootstrap {
  ChildCommon common{};
  std::string model_path{};
  std::string
      model_config{};  // checkpoint::to_record(): what the leader read there, and the formats
  std::uint64_t arena_bytes = 0;
  friend bool operator==(const LoaderBootstrap&, const LoaderBootstrap&) = default;
};

// replica → rank before RankOp::kInit of that epoch. Descriptor [0]: communicator segment. With the
// group's size these are what collective::SegmentSpec asks for.
struct EpochSegment {
  Epoch epoch{};
  std::uint64_t segment_bytes = 0;  // of the descriptor
  std::uint64_t nonce = 0;          // random per epoch
  std::uint64_t slot_bytes = 0;     // what one rank publishes at once
  friend bool operator==(const EpochSegment&, const EpochSegment&) = default;
};

// child → parent: progress of a long start, its success, or its failure with the cause in one line.
struct ChildProgress {
  std::string phase{};
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  friend bool operator==(const ChildProgress&, const ChildProgress&) = default;
};
struct ChildReady {
  std::uint64_t value = 0;  // loader: fingerprint of the arena
  friend bool operator==(const ChildReady&, const ChildReady&) = default;
};
struct ChildFailed {
  std::uint32_t code = 0;
  std::string message{};
  friend bool operator==(const ChildFailed&, const ChildFailed&) = default;
};

using ControlRecord = std::variant<ReplicaBootstrap,
                                   RankBootstrap,
                                   LoaderBootstrap,
                                   EpochSegment,
                                   ChildProgress,
                                   ChildReady,
                                   ChildFailed>;

}  // namespace phalanx::wire
