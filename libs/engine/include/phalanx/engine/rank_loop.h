// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/engine/model_runner.h"
#include "phalanx/engine/result_ring.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/wire/rank_messages.h"

namespace phalanx::engine {

struct RankLoopOptions {
  RankId rank;
  std::int32_t pid = 0;
  std::uint64_t secret = 0;
};

// A rank's command loop without the socket: one reply for one command, always (S2).
//
//   - Commands come in rising order of (epoch, step, op). One that does not is old or repeated: it
//     is not executed and answered with kFailedPrecondition, under the identity it came with (S1).
//   - Within an epoch: hello, init, sanity, attach, then steps. Out of order: kFailedPrecondition.
//   - After a command that failed, only hello and init of a newer epoch, ping and shutdown are
//     executed.
//   - Typed errors and exceptions of the runner become the code and message of the reply.
//   - A bare defect of the replica (a slot, position or block that cannot be) is answered, not
//     believed.
//
// A frame that does not decode has no identity to answer under: its reader ends the process with
// the exit status of kDataLoss.
//
// Threads: one.
class RankLoop {
 public:
  // The table says what is possible. The references outlive the loop.
  RankLoop(const RankLoopOptions& options,
           step::SequenceTable& table,
           ModelRunner& runner,
           ResultRing& ring);

  [[nodiscard]] wire::RankReply handle(const wire::RankCommand& command);

  // A kShutdown was answered: leave with status 0 once the reply is sent.
  [[nodiscard]] bool finished() const { return finished_; }

  // A command has failed: what was sent behind it is refused, until the next kHello.
  [[nodiscard]] bool is_broken() const { return phase_ == Phase::kBroken; }

 private:
  enum class Phase { kNothing, kHello, kInit, kSanity, kAttached, kBroken };

  [[nodiscard]] Status admit(const wire::RankCommand& command) const;
  [[nodiscard]] Status guarded(const wire::RankCommand& command, wire::RankReply& reply);
  [[nodiscard]] Status execute(const wire::RankCommand& command, wire::RankReply& reply);
  [[nodiscard]] Status hello(wire::RankReply& reply);
  [[nodiscard]] Status attach(const wire::RankCommand& command);
  [[nodiscard]] Status step(const wire::RankCommand& command);
  [[nodiscard]] Status check_items(const wire::RankCommand& command);
  void publish(const wire::RankCommand& command);

  RankLoopOptions options_;
  step::SequenceTable& table_;
  ModelRunner& runner_;
  ResultRing& ring_;
  std::vector<step::SampleResult> results_;
  std::vector<bool> slot_used_;
  Phase phase_ = Phase::kNothing;
  Epoch epoch_;
  StepId step_;
  wire::RankOp op_{};
  bool finished_ = false;
};

}  // namespace phalanx::engine
