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
#include "phalanx/step/choices.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"

namespace phalanx::wire {

// What every child needs first.
// Descriptors: [0] lifeline page (memfd), [1] read end of the leader's lifeline pipe (end of file =
// exit); further ones as the role says.
struct ChildCommon {
  std::uint32_t protocol = 0;
  Boot boot{};
  Incarnation incarnation{};
  std::uint64_t secret = 0;  // of the boot: a hello proves it, and it is the key of prefix hashes
  std::int32_t parent_pid = 0;
  std::string endpoint{};   // ZeroMQ endpoint to connect to; empty for planner, loader and front
  std::string log_level{};  // trace … error
  friend bool operator==(const ChildCommon&, const ChildCommon&) = default;
};

// How the model is cut and sized: equal for a replica and its ranks.
struct ModelPlan {
  std::string model_config{};  // checkpoint::to_record(): only planner and loader open files
  step::Runner runner{};
  std::string isa{};  // name of the instruction set, chosen by the planner
  std::uint32_t tp = 1;
  step::RankLimits limits{};
  std::uint64_t sim_step_us = 0;
  std::uint64_t sim_token_us = 0;
  friend bool operator==(const ModelPlan&, const ModelPlan&) = default;
};

// Role replica. Further descriptors: [2] weight arena (sealed memfd; absent for a simulated
// runner).
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
// exchange, [7] weight arena (absent for a simulated runner).
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
      model_config{};  // checkpoint::to_record(): what the planner read there, and the formats
  std::uint64_t structure_hash = 0;  // as ServerPlan's: of the files that are to be packed
  std::uint32_t tp = 1;              // ranks of a group, for which the arena is laid out
  std::uint64_t arena_bytes = 0;
  friend bool operator==(const LoaderBootstrap&, const LoaderBootstrap&) = default;
};

// Role planner: what was asked for, where it says something of the model or of memory. Zeroes are
// derived from both.
struct PlannerBootstrap {
  ChildCommon common{};
  std::string model_path{};           // --model
  std::string chat_template_path{};   // --chat-template; empty: the model's own
  std::string quantization{};         // one of step::quantization_choices()
  std::string isa{};                  // one of step::isa_choices()
  std::uint32_t dp = 1;               // --data-parallel-size
  std::uint32_t tp = 1;               // --tensor-parallel-size
  step::RankLimits limits{};          // of each replica
  std::uint64_t kv_memory_bytes = 0;  // --kv-cache-memory-bytes: of each replica, for kv_blocks
  friend bool operator==(const PlannerBootstrap&, const PlannerBootstrap&) = default;
};

// planner → leader: all that the leader knows of a model. Descriptor [0]: memfd with the source of
// tokenizer and templates, as fronts get it (tokenizer::to_bytes()), mapped by nobody.
struct ServerPlan {
  std::string model_config{};        // checkpoint::to_record(), with the formats to pack in
  std::uint64_t structure_hash = 0;  // checkpoint::Checkpoint::structure_hash()
  std::string model_name{};          // after its folder or file
  std::string model_summary{};       // for people: architecture and sizes
  std::string weight_summary{};      // for people: the formats to pack in
  std::string isa{};                 // name of the instruction set, chosen
  step::RankLimits limits{};         // derived where they were not asked for
  std::uint32_t vocab = 0;
  step::SamplingParams default_sampling{};  // of generation_config.json
  std::vector<TokenId> end_tokens{};        // ids, ascending, at most step::kMaxEndTokens
  std::uint64_t tokenizer_bytes = 0;        // of the descriptor
  std::uint64_t file_bytes = 0;             // of all that weights are packed from
  std::uint64_t weight_bytes = 0;           // of the arena
  std::uint64_t rank_bytes = 0;             // of the slot of the rank that needs most
  std::vector<std::pair<std::string, std::uint64_t>> memory{};  // for people: what, and how much
  friend bool operator==(const ServerPlan&, const ServerPlan&) = default;
};

// Role front. Descriptor [2]: sealed memfd with the source of tokenizer and templates; [3]: the
// journal of this life of the front (front_journal.h). What follows the bootstrap record and the
// records of a start: front_messages.h.
struct FrontBootstrap {
  ChildCommon common{};
  std::uint32_t front = 0;   // its slot
  std::string model_name{};  // what clients call it: the name in answers, and behind it, each in a
                             // line of its own, others that requests may use
  std::string model_root{};  // the folder it came from
  std::int64_t created = 0;  // seconds since 1970
  std::uint32_t max_model_len = 0;
  std::uint32_t vocab = 0;
  step::SamplingParams default_sampling{};  // where a request says nothing
  std::vector<TokenId> end_tokens{};        // ids, ascending, at most step::kMaxEndTokens
  std::uint64_t tokenizer_bytes = 0;        // of the descriptor
  bool on_loopback = true;                  // what clients connect to
  std::uint64_t max_body_bytes = 0;         // --max-body-bytes
  std::uint64_t stream_buffer_bytes = 0;    // --stream-buffer-bytes
  std::uint64_t client_memory_bytes = 0;    // of --client-memory-bytes, what is this front's
  std::uint32_t comment_ms = 0;             // --keep-alive-interval
  std::string allowed_hosts{};        // --allowed-hosts: separated by commas, at most kMaxListBytes
  std::string allowed_origins{};      // --allowed-origins: the same
  bool strict_api = false;            // --strict-api
  std::uint32_t max_queued_reqs = 0;  // --max-num-queued-reqs
  std::uint64_t journal_bytes = 0;    // of the descriptor
  std::uint32_t journal_places = 0;   // records in it
  friend bool operator==(const FrontBootstrap&, const FrontBootstrap&) = default;
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
  std::uint64_t value = 0;  // loader: fingerprint of the arena, for the log
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
                                   ChildFailed,
                                   FrontBootstrap,
                                   PlannerBootstrap,
                                   ServerPlan>;

}  // namespace phalanx::wire
