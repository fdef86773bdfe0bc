// SPDX-License-Identifier: Apache-2.0
// Frames between a replica engine and its ranks.
// Contract: proto/replica-rank.md. Exactly one RankReply answers each RankCommand; both carry
// (epoch, step, op), and the reply the rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/wire/sampling.h"

namespace phalanx::wire {

enum class RankOp : std::uint8_t {
  kHello = 1,     // answer who you are
  kInit = 2,      // map the communicator of this epoch (its memfd came over the control socket) and
                  // meet in a barrier
  kSanity = 3,    // reduce 1 over the group, and exchange a pattern with every peer
  kAttach = 4,    // replace the table of live sequences
  kStep = 5,      // run the batch, sample
  kClear = 6,     // forget all sequences; with `zero_kv`, make the KV finite again
  kUnload = 7,    // drop the model's mappings
  kPing = 8,      // answer; nothing else
  kShutdown = 9,  // answer, then exit with status 0
};

// A sequence as a rank knows it. `slot` is its row in the sequence table, unique among live
// sequences.
struct SequenceAttach {
  std::uint32_t slot = 0;
  std::uint64_t sequence = 0;       // never reused within a replica incarnation
  std::vector<TokenId> tokens{};    // prompt, then produced so far
  std::uint32_t prompt_tokens = 0;  // how many of `tokens` are prompt
  std::uint32_t choice = 0;         // for the random key
  SamplingParams sampling{};
  std::vector<TokenId> masked_until_min_tokens{};  // ids that min_tokens masks
  friend bool operator==(const SequenceAttach&, const SequenceAttach&) = default;
};

// One row range of a step: compute positions [start, start + count) of the sequence in `slot`.
struct StepItem {
  std::uint32_t slot = 0;
  std::uint64_t sequence = 0;
  std::uint32_t start = 0;  // absolute position of the first token
  std::uint32_t count = 0;  // ≥ 1; the inputs are the sequence's tokens at those positions
  bool sample = false;      // draw the token at position start + count
  std::vector<std::uint32_t>
      blocks{};  // whole block table of the sequence, covering start + count tokens
  friend bool operator==(const StepItem&, const StepItem&) = default;
};

struct RankCommand {
  Epoch epoch{};
  StepId step{};
  RankOp op = RankOp::kPing;
  std::vector<SequenceAttach>
      attach{};  // kAttach: the whole table; kStep: sequences new in this step
  std::vector<std::uint32_t> detach{};  // kStep: slots freed before `attach` is applied
  std::vector<StepItem> items{};        // kStep
  bool zero_kv = false;                 // kClear
  friend bool operator==(const RankCommand&, const RankCommand&) = default;
};

// Sampled tokens are not here: they lie in the result ring at [step % kResultRingSteps][index of
// the item].
struct RankReply {
  Epoch epoch{};
  StepId step{};
  RankId rank{};
  RankOp op = RankOp::kPing;
  std::uint32_t code = 0;           // 0 = done, else a phalanx::Code
  std::string message{};            // with code != 0
  std::uint64_t state_hash = 0;     // of the sequence table after the command (S9)
  std::uint64_t compute_us = 0;     // in kernels
  std::uint64_t collective_us = 0;  // waiting for and exchanging with peers
  std::uint64_t preparations = 0;   // see RankStatus
  std::uint64_t allocations = 0;
  std::int32_t pid = 0;                    // kHello
  std::uint64_t secret = 0;                // kHello: the per-boot secret
  std::uint64_t callables_hash = 0;        // kHello: the static table of tasks
  std::uint64_t numerics_fingerprint = 0;  // kHello
  friend bool operator==(const RankReply&, const RankReply&) = default;
};

// One row of the result ring, a memfd that the replica maps read-only and the rank writes. Plain
// memory, same machine.
struct SampleResult {
  std::uint64_t step =
      0;  // StepId, written last with release order: a reader that sees another value has no result
  std::uint64_t sequence = 0;
  TokenId token = 0;
  float logprob = 0.0F;
  std::uint32_t top_count = 0;
  std::uint32_t fault = 0;  // 0 = drawn; else the phalanx::Code of why this sequence has no token
  TokenLogprob top[20] = {};
};
inline constexpr std::uint32_t kResultRingSteps = 2;  // a step and the one dispatched ahead of it

// Bytes of the ring for one item of a step.
inline constexpr std::size_t kResultRowBytes = sizeof(SampleResult) * kResultRingSteps;

}  // namespace phalanx::wire
