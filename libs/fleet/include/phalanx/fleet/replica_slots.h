// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/ids.h"
#include "phalanx/base/punctual_ticks.h"
#include "phalanx/base/result.h"
#include "phalanx/fleet/rollout.h"
#include "phalanx/supervise/supervisor.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::fleet {

// Hears what becomes of the replicas as a whole. Loop thread. Every function is set.
struct ReplicaEvents {
  // May take work (again). Replicas of equal numerics can go on with each other's sequences.
  std::function<void(ReplicaId, std::uint64_t numerics_fingerprint)> on_ready;
  std::function<void(ReplicaId)> on_down;     // takes no new work for now
  std::function<void(ReplicaId)> on_started;  // as a process; it may have failed before
  // Whether it would compute what it were given, drained or not: it has been ready in this
  // incarnation, was not asked to end, and its ranks are a group, as far as is known.
  std::function<void(ReplicaId, bool alive)> on_alive;
  std::function<void(ReplicaId)> on_lost;  // its incarnation is over; told once or more often
  // Its ranks have been no group for kUnformedTicks, which may last, and it looks for no culprit;
  // at every tick until they are.
  std::function<void(ReplicaId)> on_unformed;
  // It is dead. `own`: by what it was doing, not by a signal, a stop or an end that was asked for.
  // True: the death is held against requests, and costs the replica no restart. Also told when it
  // has said that it gives up: then `own` is false, the answer does not count, and its death is
  // told again.
  std::function<bool(ReplicaId, bool own, const std::string& how)> on_died;
  std::function<void(ReplicaId, bool draining)> on_draining;  // as an operator wants it
  std::function<void(ReplicaId, const wire::TokenBatch&)> on_tokens;
  std::function<void(ReplicaId, const wire::ReplicaHolding&)> on_holding;
  std::function<void(ReplicaId, const wire::PrefixChanges&)> on_prefix_changes;
  std::function<void(ReplicaId)> on_reaped;                      // it is started again
  std::function<void(ReplicaId, const Error& cause)> on_failed;  // not started again by itself
  std::function<void()> on_rolled;  // the rolling restart is over, well or not
  // No replica process is left but those that do not die, and none will start. May be told again.
  std::function<void()> on_stopped;
};

// What is judged of the replicas: supervised slots, heartbeats, readiness, the rolling restart, and
// what each has last said of itself. It has no processes, channels or clock of its own.
//
// The first start is strict: a replica that dies before any has been ready has failed. With the
// first readiness the server has started; from then on every death is followed by a restart.
//
// Ownership: borrows runner, events and clock.
// Threads: one.
// Blocks: as the runner.
class ReplicaSlots final : public supervise::SupervisorListener {
 public:
  // Ticks on time: 2 s. A rank is replaced in tens of milliseconds, with large weights in a second.
  static constexpr std::uint32_t kUnformedTicks = 20;

  ReplicaSlots(std::size_t replicas,
               const supervise::SupervisorOptions& options,
               supervise::ProcessRunner& runner,
               const ReplicaEvents& events,
               const Clock& clock);

  // Commands. kNotFound for a replica that is not there, kFailedPrecondition for a start behind
  // stop_all(). A replica stays drained until it is resumed, over its restarts as well.
  void start_all() { supervisor_.start_all(); }
  void stop_all();
  void kill_all() { supervisor_.kill_all(); }
  [[nodiscard]] Status drain(ReplicaId replica);
  [[nodiscard]] Status resume(ReplicaId replica);
  [[nodiscard]] Status restart(ReplicaId replica);
  // Begins a rolling restart, or queues one more; ends in events.on_rolled. Leaves out those that
  // do not die of SIGKILL: they hold up nobody.
  void roll();
  void drop_roll() { rollout_.drop(); }

  // It runs under a wrapper: it is never called hung for being silent, at its start or later.
  void be_patient_with(std::size_t slot);

  // What comes from the process of a slot; of an earlier incarnation it means nothing.
  void on_spawned(std::size_t slot, Incarnation incarnation);  // before its first word
  void on_hello(std::size_t slot, Incarnation incarnation);    // it has proven who it is
  void on_heartbeat(std::size_t slot) { slots_[slot].quiet_ticks = 0; }
  void on_ready(std::size_t slot, Incarnation incarnation, std::uint64_t numerics_fingerprint);
  void on_status(std::size_t slot, Incarnation incarnation, const wire::ReplicaStatus& status);
  void on_failure(std::size_t slot, Incarnation incarnation, const Error& error);
  // It cannot go on and is about to end: its requests go on elsewhere at once.
  void on_giving_up(std::size_t slot, Incarnation incarnation, const Error& error);
  void on_hung(std::size_t slot, Incarnation incarnation, const std::string& evidence);
  void condemn(std::size_t slot, Incarnation incarnation, const Error& why);  // it is broken
  void on_asked_to_stop(std::size_t slot);
  void on_lost(std::size_t slot);  // it dies, or has died; may be told again
  // Tells events.on_died() of a death; the answer is the death as it counts.
  [[nodiscard]] supervise::Death judge(const supervise::Death& death);
  void on_exit(const supervise::Death& death);

  // Every 100 ms.
  void on_tick();

  [[nodiscard]] std::size_t size() const { return slots_.size(); }
  [[nodiscard]] bool proven(std::size_t slot) const { return slots_[slot].proven; }
  [[nodiscard]] supervise::SlotStatus status(ReplicaId replica) const {
    return supervisor_.status(replica.value());
  }
  // What each said last. Of one that is lost only what is still true: its ranks are dead.
  [[nodiscard]] const std::map<ReplicaId, wire::ReplicaStatus>& reports() const { return reports_; }
  [[nodiscard]] bool all_failed() const { return supervisor_.failed() == slots_.size(); }
  // A replica serves or is about to, without an operator's doing.
  [[nodiscard]] bool any_may_serve() const;
  // Every replica has been ready, or has shown that it will take longer.
  [[nodiscard]] bool start_is_over() const;

 private:
  struct Slot {
    Incarnation incarnation;
    bool proven = false;               // its hello carried the secret
    bool was_ready = false;            // in this incarnation
    bool lost = false;                 // it dies, or is dead: it proves nothing any more
    bool ending = false;               // it was asked to stop, or said that it gives up
    bool hung = false;                 // its heartbeats had ended
    bool stuck = false;                // was killed, and does not die
    bool serves = false;               // was told by on_ready() and not taken back
    std::uint64_t numerics = 0;        // fingerprint that it named with its readiness
    std::uint32_t quiet_ticks = 0;     // ticks on time since its last heartbeat
    bool recovering = false;           // as it has said last
    bool searching = false;            // likewise
    std::uint32_t unformed_ticks = 0;  // ticks on time since it has begun to say so
  };

  // SupervisorListener
  void on_slot_ready(std::size_t slot, Incarnation incarnation) override;
  void on_slot_down(std::size_t slot, Incarnation incarnation) override;
  void on_slot_death(const supervise::Death& death) override;
  void on_slot_failed(std::size_t slot, const Error& cause) override;
  void on_slot_stopped(std::size_t slot) override;
  void on_slot_doomed(std::size_t slot) override;
  void on_slot_stuck(std::size_t slot, pid_t pid) override;

  [[nodiscard]] Status check(ReplicaId replica) const;
  [[nodiscard]] Status check_start(ReplicaId replica) const;
  // That an operator wants it drained counts, whatever state it is in.
  [[nodiscard]] RollSlot::Condition condition(std::size_t slot) const;
  void advance_roll();
  void watch_forming(std::size_t slot);
  void tell_if_stopped();

  const ReplicaEvents& events_;
  const Clock& clock_;
  supervise::Supervisor supervisor_;
  std::vector<Slot> slots_;
  std::vector<bool> patient_;  // by slot
  std::vector<bool> drained_;  // by slot: as an operator wants it
  std::map<ReplicaId, wire::ReplicaStatus> reports_;
  Rollout rollout_;
  bool advancing_ = false;
  bool stopping_ = false;
  PunctualTicks ticks_;
};

}  // namespace phalanx::fleet
