// SPDX-License-Identifier: Apache-2.0
// Frames between the leader and a replica engine. Contract with units, limits and who may send what
// in which state: proto/leader-replica.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/ids.h"
#include "phalanx/step/sampling.h"

namespace phalanx::wire {

// Names one attempt to generate one choice of one request.
struct SequenceKey {
  RequestId request{};
  ChoiceIndex choice{};
  Attempt attempt{};
  // NOLINTNEXTLINE(modernize-use-nullptr): as in phalanx/base/ids.h
  friend auto operator<=>(const SequenceKey&, const SequenceKey&) = default;
};

// ---- leader → replica

struct Submit {
  SequenceKey key{};
  std::vector<TokenId> prompt_ids{};    // 1 … max_model_len - 1
  std::vector<TokenId> produced_ids{};  // by earlier attempts: history, never prompt; the next
                                        // position is their count
  step::SamplingParams sampling{};
  step::StopParams stop{};
  std::string cache_salt{};  // KV is shared only between equal salts; at most kMaxSaltBytes
  friend bool operator==(const Submit&, const Submit&) = default;
};

// The sequence leaves the batch at the next step boundary; the replica answers with a final
// TokenUpdate.
struct Cancel {
  SequenceKey key{};
  friend bool operator==(const Cancel&, const Cancel&) = default;
};

// Stop after finishing (drain) or aborting (!drain) what is there. The replica exits with status 0
// after a clean drain.
struct StopReplica {
  bool drain = true;
  std::uint32_t deadline_ms = 0;
  friend bool operator==(const StopReplica&, const StopReplica&) = default;
};

using LeaderMessage = std::variant<Submit, Cancel, StopReplica>;

struct LeaderFrame {
  Boot boot{};
  Incarnation incarnation{};
  LeaderMessage message{};
  friend bool operator==(const LeaderFrame&, const LeaderFrame&) = default;
};

// ---- replica → leader

// First frame of an incarnation. The secret is the per-boot secret of the bootstrap record.
struct ReplicaHello {
  std::uint32_t protocol = 0;
  std::uint64_t secret = 0;
  std::int32_t pid = 0;
  friend bool operator==(const ReplicaHello&, const ReplicaHello&) = default;
};

// The ranks have passed init, sanity check and a self-test step: work may be submitted. Sent again
// after each recovery.
struct ReplicaReady {
  Epoch epoch{};
  // Of arithmetic version, arena and KV format: equal on replicas that may swap streams.
  std::uint64_t numerics_fingerprint = 0;
  std::uint32_t kv_blocks = 0;
  std::uint64_t memory_bytes = 0;  // of this replica's memfds, weights excluded
  friend bool operator==(const ReplicaReady&, const ReplicaReady&) = default;
};

// What one step changed for one sequence. `to_compute` and `to_generate` are absolute remainders;
// the ledger sets them.
struct TokenUpdate {
  SequenceKey key{};
  // Index of the produced token, counted over all attempts; meaningful if has_token.
  std::uint32_t position = 0;
  bool has_token = false;
  TokenId token = 0;
  std::optional<float> logprob{};                  // of the token, if asked for
  std::vector<step::TokenLogprob> top_logprobs{};  // likeliest first
  std::uint32_t to_compute = 0;     // prompt and history tokens whose KV is still to be computed
  std::uint32_t to_generate = 0;    // tokens that may still be produced
  std::uint32_t cached_tokens = 0;  // of the prompt, found in the prefix cache when this attempt
                                    // was admitted; 0 before that
  // With the first token of the attempt, else 0: from its Submit to the step that it was first in,
  // and from there to the token. 2^32 - 1 is that or more.
  std::uint32_t queue_us = 0;
  std::uint32_t prefill_us = 0;
  step::FinishReason finish = step::FinishReason::kNone;
  std::uint32_t error_code = 0;  // a phalanx::Code, with finish == kError
  std::string error_message{};
  friend bool operator==(const TokenUpdate&, const TokenUpdate&) = default;
};

struct TokenBatch {
  StepId step{};
  std::vector<TokenUpdate> updates{};
  friend bool operator==(const TokenBatch&, const TokenBatch&) = default;
};

enum class RankState : std::uint8_t { kStarting, kReady, kRecovering, kDead };

struct RankStatus {
  RankState state = RankState::kStarting;
  std::int32_t pid = 0;
  Incarnation incarnation{};
  std::uint32_t restarts = 0;
  std::string last_error{};
  std::uint64_t preparations = 0;  // programs prepared since start; constant while serving
  // Heap allocations inside steps since start; constant while serving.
  std::uint64_t allocations = 0;
  friend bool operator==(const RankStatus&, const RankStatus&) = default;
};

// Heartbeat, every 100 to 300 ms while the replica's loop turns (proto/leader-replica.md), and at
// once on a change of state.
struct ReplicaStatus {
  Epoch epoch{};
  StepId last_step{};
  bool recovering = false;
  bool searching = false;  // for the sequence that ends the ranks: it is to stay until it is found
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::uint32_t kv_blocks_free = 0;
  std::uint32_t kv_blocks_total = 0;
  std::uint32_t kv_blocks_cached = 0;     // of the free ones: what they hold can be shared
  std::uint64_t prefix_tokens_asked = 0;  // prompt tokens of the sequences admitted so far …
  std::uint64_t prefix_tokens_found = 0;  // … of which so many were in the prefix cache
  std::uint64_t preemptions = 0;
  // Of a prompt's beginning that fit into a step beside a decode.
  std::uint32_t step_budget_rows = 0;
  std::uint64_t drains = 0;         // steps that ended by abort and drain
  std::uint64_t stale_replies = 0;  // replies of older epochs or steps, dropped
  std::string last_error{};
  std::vector<RankStatus> ranks{};
  friend bool operator==(const ReplicaStatus&, const ReplicaStatus&) = default;
};

// The replica cannot start or cannot recover. Last frame before it exits with
// error_traits(code).exit_status.
struct ReplicaFailed {
  std::uint32_t code = 0;
  std::string message{};
  friend bool operator==(const ReplicaFailed&, const ReplicaFailed&) = default;
};

// A part of what the replica has, with each heartbeat: every key beyond `after`, up to the last of
// `keys` or, with `to_end`, to the end. The next one goes on behind it, or begins anew. Sequences
// that are about to leave are left out.
struct ReplicaHolding {
  std::uint64_t effects = 0;  // Submit and Cancel frames handled in this incarnation, refused ones
                              // too: what the keys already show
  SequenceKey after{};        // {0, 0, 0}: from the beginning
  bool to_end = true;
  std::vector<SequenceKey> keys{};  // ascending, at most kMaxHeldKeys
  friend bool operator==(const ReplicaHolding&, const ReplicaHolding&) = default;
};

// How the prefix cache of the replica has changed: hashes of phalanx/step/prefix_hash.h, `cleared`
// before the rest. The first one of an incarnation clears. A hint for routing, no more: what is
// missing in it costs time and nothing else.
struct PrefixChanges {
  bool cleared = false;
  std::vector<std::uint64_t> published{};  // at most kMaxPrefixChanges
  std::vector<std::uint64_t> evicted{};    // at most kMaxPrefixChanges, none of them published here
  friend bool operator==(const PrefixChanges&, const PrefixChanges&) = default;
};

using ReplicaMessage = std::variant<ReplicaHello,
                                    ReplicaReady,
                                    TokenBatch,
                                    ReplicaStatus,
                                    ReplicaFailed,
                                    ReplicaHolding,
                                    PrefixChanges>;

struct ReplicaFrame {
  Boot boot{};
  Incarnation incarnation{};
  ReplicaMessage message{};
  friend bool operator==(const ReplicaFrame&, const ReplicaFrame&) = default;
};

}  // namespace phalanx::wire
