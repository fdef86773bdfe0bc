// SPDX-License-Identifier: Apache-2.0
// Frames between a replica engine and its ranks.
// Contract: proto/replica-rank.md. Exactly one RankReply answers each RankCommand; both carry
// (epoch, step, op), and the reply the rank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"

namespace phalanx::wire {

enum class RankOp : std::uint8_t {
  kHello = 1,     // answer who you are
  kInit = 2,      // map the communicator of this epoch (its memfd came over the control socket) and
                  // meet in a barrier
  kSanity = 3,    // reduce 1 over the group, and exchange a pattern with every peer
  kAttach = 4,    // replace the table of live sequences
  kStep = 5,      // run the batch, sample
  kClear = 6,     // forget all sequences; with `zero_kv`, make the KV finite again
  kPing = 7,      // answer; nothing else
  kShutdown = 8,  // answer, then exit with status 0
};

[[nodiscard]] std::string_view name_of(RankOp op);  // for people: "hello"

struct RankCommand {
  Epoch epoch{};
  StepId step{};
  RankOp op = RankOp::kPing;
  std::vector<step::SequenceAttach>
      attach{};  // kAttach: the whole table; kStep: sequences new in this step
  std::vector<std::uint32_t> detach{};  // kStep: slots freed before `attach` is applied
  std::vector<step::StepItem> items{};  // kStep
  bool zero_kv = false;                 // kClear
  friend bool operator==(const RankCommand&, const RankCommand&) = default;
};

// Sampled tokens are not here: they lie in the result ring at [step % step::kResultRingSteps][index
// of the item].
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

}  // namespace phalanx::wire
