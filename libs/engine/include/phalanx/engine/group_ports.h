// SPDX-License-Identifier: Apache-2.0
// What a rank group needs from outside: hands on its processes, and a client that owns the
// sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/engine/collective_step.h"
#include "phalanx/engine/step_fault.h"
#include "phalanx/wire/rank_messages.h"

namespace phalanx::engine {

// What a group can do to its processes and memory. As RankPort: at once, never calling back.
class GroupPort : public RankPort {
 public:
  // Starts a process in the slot of `rank`, with a link of its own, over the memory that the slot
  // has. Called only when no process of that slot lives. An error ends the group; where it is
  // kResourceExhausted, and the group was ready before, only after some more attempts.
  [[nodiscard]] virtual Status respawn(RankId rank, Incarnation incarnation) = 0;

  // Makes the communicator of `epoch`, sends it to every rank's control socket and lets
  // raise_abort() mean it from now on. An error is a fault: it ends a group that was never ready;
  // another one is formed again, where it is kResourceExhausted after a pause.
  [[nodiscard]] virtual Status new_segment(Epoch epoch) = 0;

  // The rank's progress word, in its lifeline page.
  [[nodiscard]] virtual std::uint64_t progress(RankId rank) = 0;
};

// Whose group it is: owns the sequences, hears how the steps end. Called from inside the group's
// own calls; may call run() when ready() from on_ready(), on_idle() and on_step(), run_ahead()
// whenever the group takes_ahead(), and stop().
class GroupClient {
 public:
  GroupClient() = default;
  GroupClient(const GroupClient&) = delete;
  GroupClient& operator=(const GroupClient&) = delete;
  virtual ~GroupClient() = default;

  // The table for kAttach. With `kv_lost` no KV exists any more: forget what was computed; the step
  // that failed is not run again.
  struct Attachment {
    std::vector<step::SequenceAttach> table;
    std::uint64_t hash = 0;  // that every rank must report afterwards
  };
  [[nodiscard]] virtual Attachment attachment(bool kv_lost) = 0;

  // `command` is about to be run again. Takes out what is not wanted any more; false: nothing is
  // left.
  [[nodiscard]] virtual bool revise(wire::RankCommand* command) = 0;

  // A step that proves that the group computes; asked for once, after the first attach.
  [[nodiscard]] virtual wire::RankCommand self_test() = 0;

  // All ranks have answered this step: takes over its results. Answers the hash every rank must have
  // reported, or the failure of the replica's own part.
  [[nodiscard]] virtual Result<std::uint64_t> take_results(const wire::RankCommand& command) = 0;

  // A step failed by what may be its own doing, and is not run again: its sequences are to be run
  // apart. Comes while the group recovers, before attachment().
  virtual void on_blamed(const Error& cause) = 0;

  virtual void on_ready(Epoch epoch) = 0;  // formed (again); ready(), or a step is repeated first
  virtual void on_idle() = 0;              // ready() again after a ping
  virtual void on_step(const wire::RankCommand& command, const CollectiveStep& step) = 0;
  // Recovery begins, waits for what is lacking, or has learnt what a rank died of.
  virtual void on_fault(const StepFault& fault) = 0;
  virtual void on_failed(const Error& error) = 0;  // for good; every rank was sent SIGKILL
  // The last call, once, after stop() or on_failed(): no rank lives, or one does not die of SIGKILL
  // and 2 · reap_ticks have passed.
  virtual void on_stopped() = 0;
};

}  // namespace phalanx::engine
