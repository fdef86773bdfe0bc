// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/death_origin.h"
#include "phalanx/base/error.h"
#include "phalanx/base/ids.h"

namespace phalanx::engine {

// How a rank left the world.
struct RankDeath {
  bool signaled = false;
  int number = 0;           // the signal, or the exit status
  std::string description;  // for people: "killed by SIGKILL"
  DeathOrigin origin = DeathOrigin::kSent;
  // It said so: there was no memory, process or descriptor for it.
  bool lacked_resources = false;
};

// What the death is to those who needed the rank. Its code is kResourceExhausted for one that
// lacked resources, else kUnavailable.
[[nodiscard]] Error error_of(const RankDeath& death, const std::string& when);

// Can the KV of a rank that died like this be used by its successor? Not after one of
// kCrashSignals that it brought about itself: such a rank may have written anywhere before.
[[nodiscard]] bool kv_survives(const RankDeath& death);

// What one rank did wrong in one operation.
struct RankFailure {
  enum class Kind {
    kReply,      // it answered with an error, `aborted` included
    kSuspected,  // it was stopped or began to die, and owed nothing, or answered "done" meanwhile
    kDeath,      // it died before answering
    kKilled,     // it did not answer, or would not take the command, and was killed
    kDiverged    // it answered "done", and its state is not what it must be
  };
  RankId rank;
  Kind kind = Kind::kReply;
  Error error;
};

// Does it only say that the operation ended elsewhere?
[[nodiscard]] bool is_consequence(const RankFailure& failure);

// Why an operation failed: everything, not the first thing (S6).
struct StepFault {
  std::optional<Error> own;         // the replica's own part
  std::vector<RankFailure> ranks;   // causes in rank order, then those that were freed by the abort
  std::vector<RankId> never_asked;  // the fan-out ended before them
  bool hung = false;                // no rank moved any more; the abort ended that

  [[nodiscard]] static StepFault of_replica(Error error);

  // Adds what happened in the step that was sent behind this one.
  void add_behind(const StepFault& behind);
  void causes_first();  // brings `ranks` into its order, which is otherwise kept

  // Can the work itself have caused this? An error of a rank or of the replica's own part, a hang
  // and a diverged state can; what a death says is told by its origin. That a rank lacked resources
  // is no evidence.
  [[nodiscard]] bool own_evidence() const;
  [[nodiscard]] bool lacks_resources() const;

  // One error that names all of them, the replica's own first. Its code is that of the first cause;
  // kAborted only when nothing else is known.
  [[nodiscard]] Error combined() const;
};

}  // namespace phalanx::engine
