// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/engine/collective_step.h"
#include "phalanx/engine/group_options.h"
#include "phalanx/engine/group_ports.h"
#include "phalanx/engine/progress_watch.h"
#include "phalanx/engine/step_fault.h"
#include "phalanx/wire/rank_messages.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::engine {

// The life of the ranks of one replica (S7): start → hello → init → sanity → attach → self-test →
// steps; and after any fault: abort → drain → reap and respawn what is dead → epoch + 1 with a new
// communicator → hello → init → sanity → attach → the failed step again, under its number. A rank
// that answered with an error of its own, or diverged, is replaced like a dead one.
//
// A fault before the first readiness, more faults than restart_limit allows, a failing respawn: the
// group has failed, all ranks are killed, and the cause is told once. Resources that are lacking
// are no fault: a group that was ready pauses and tries again, shortage_limit times in a row (until
// a step is done, or it is ready with none to run again); then it has failed, too.
//
// A step after whose beginning a rank died by its own doing, or that hung, diverged or was answered
// with an error, is blamed on its sequences: it is not repeated and does not count as a fault. When
// a rank was stopped by a signal, only deaths of their own accuse. One that lacked resources
// accuses nobody, but where it would be the end of the group, the step is blamed instead.
//
// Threads: one.
class RankGroup final : private RankPort {
 public:
  RankGroup(const GroupOptions& options, GroupPort& port, GroupClient& client, const Clock& clock);
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;
  ~RankGroup() override;

  void start();  // once

  // Runs one step. Requires ready(). `command` needs attach, detach and items; identity and op are
  // filled in here. Ends in on_step(), in a repetition (after revise()), in on_blamed(), or in
  // attachment(true).
  void run(wire::RankCommand command);

  // Sends the step behind the one in flight, so that the ranks go on with it at once. It is begun
  // when that one has ended in on_step(); when that one fails, both are drained, and this one is
  // forgotten: on_fault() tells. Requires takes_ahead().
  void run_ahead(wire::RankCommand command);

  // A step is in flight, and as far as is known it will succeed.
  [[nodiscard]] bool takes_ahead() const;

  // Ends the ranks: politely when idle, or, with after_step, when the steps in flight have
  // ended; otherwise by abort and kill. Ends in on_stopped().
  void stop(bool after_step);

  // One more fault of the group: what was blamed on sequences turned out to be none of theirs.
  void charge() { faults_.push_back(clock_.now()); }

  void on_reply(RankId rank, const wire::RankReply& reply);
  void on_death(RankId rank, const RankDeath& death);  // the process is gone; its memory is ours
  void on_lifeline_free(RankId rank);                  // it is dying (S5): the abort must not wait
  void on_stopped_by_signal(RankId rank);              // WSTOPPED
  void on_writable(RankId rank);
  // A timer that was armed for `periods` of options.progress.period is over: for 1, unless the
  // group was ready() then. A tick before its time does not count as on time.
  void on_tick(std::uint32_t periods);

  [[nodiscard]] bool ready() const { return state_ == State::kReady; }
  [[nodiscard]] bool forming() const;
  [[nodiscard]] Epoch epoch() const { return epoch_; }
  [[nodiscard]] StepId last_step() const { return last_done_; }
  [[nodiscard]] std::uint64_t drains() const { return drains_; }
  [[nodiscard]] std::uint64_t stale_replies() const { return stale_replies_; }
  [[nodiscard]] const std::vector<wire::RankStatus>& ranks() const { return status_; }
  [[nodiscard]] std::uint64_t numerics_fingerprint() const { return fingerprint_; }

 private:
  enum class State {
    kNew,
    kReaping,   // waiting for killed ranks to be gone
    kForming,   // hello … self-test
    kReady,     // idle
    kStepping,  // a step or a ping is in flight
    kStopping,  // for good, also when it has stopped
    kFailed     // the same
  };

  // Steps reach the ranks through their group: two that are in flight kill nobody twice.
  [[nodiscard]] wire::Sent send(RankId rank, std::string_view frame) override;
  void raise_abort() override;
  void kill(RankId rank) override;

  struct Slot {
    bool alive = false;
    bool doomed = false;  // it ends, by a kill or as it is dying: its death is still to be reported
    bool dying = false;   // its lifeline became free before a kill was sent
  };
  struct Trial {  // a fault whose deaths are still to be heard
    StepFault fault;
    bool of_step = false;
    bool told = false;  // in the log
  };
  [[nodiscard]] StepId upcoming() const;
  [[nodiscard]] StepLimits limits_for(wire::RankOp op) const;
  [[nodiscard]] std::unique_ptr<CollectiveStep> ask(wire::RankOp op, wire::RankCommand* command);
  void begin(wire::RankOp op, wire::RankCommand command = {});
  void begin_numbered(wire::RankOp op, wire::RankCommand command = {});
  void forget_steps();
  [[nodiscard]] std::vector<CollectiveStep*> in_flight() const;
  [[nodiscard]] bool aborting() const;
  void begin_forming(wire::RankOp op, wire::RankCommand command = {});
  void advance();  // after every event: the operation in flight may be done
  void read_results();
  [[nodiscard]] bool drained();  // nothing of the operation in flight is under way any more
  [[nodiscard]] StepFault take_fault(const CollectiveStep& step);
  void op_done(CollectiveStep& step);
  void op_failed(const CollectiveStep& step);
  void leave_after(const CollectiveStep& step, const StepFault& fault);
  void hello_done(CollectiveStep& step);
  void attach_done(CollectiveStep& step);
  void step_done(const CollectiveStep& step);
  [[nodiscard]] Status check_hello(const CollectiveStep& step);
  void attach();
  void attached();
  void become_ready();
  void become_idle();
  void recover(const StepFault& fault, bool of_step = false);
  void tell_fault();
  void explain(RankId rank, const RankDeath& death);
  void reaped();  // every dead rank is gone: judges the fault, forms again
  [[nodiscard]] bool affords(const Error& cause);
  void doom_failing(const StepFault& fault);
  void form();  // respawn what is dead, then hello
  void cannot_start(const Error& cause);
  void wait_out(const Error& shortage);  // ends in form(), or in fail()
  [[nodiscard]] Status respawn(RankId rank);
  void fail(const Error& error);
  void doom(RankId rank);
  void doom_all();
  void kill_dying();  // which has taken long
  void end_if_empty();
  [[nodiscard]] bool any(bool Slot::*flag) const;
  [[nodiscard]] bool distrust(RankId rank, Error error);  // false: nobody waits for it
  void set_states(wire::RankState state);
  void tick_without_step(std::uint32_t periods);

  GroupOptions options_;
  GroupPort& port_;
  GroupClient& client_;
  const Clock& clock_;
  ProgressWatch watch_;
  State state_ = State::kNew;
  std::vector<Slot> slots_;
  std::vector<wire::RankStatus> status_;
  std::unique_ptr<CollectiveStep> step_;
  wire::RankCommand command_;              // in flight
  std::unique_ptr<CollectiveStep> ahead_;  // the step after it, if it was sent already
  wire::RankCommand ahead_command_;
  std::optional<wire::RankCommand> repeat_;  // the step that a fault interrupted
  std::optional<Trial> trial_;
  // Since the operation began.
  bool own_death_ = false, stop_seen_ = false;
  std::optional<Error> shortage_;  // that a rank died of
  std::optional<StepFault> late_;  // of ranks that died after they had answered
  std::deque<SteadyTime> faults_;
  SteadyTime forming_since_;
  Epoch epoch_;
  std::uint64_t next_step_ = 1;
  StepId last_done_;
  std::uint64_t attach_hash_ = 0, fingerprint_ = 0;
  std::uint64_t drains_ = 0, stale_replies_ = 0;
  std::uint32_t reap_ticks_ = 0, idle_periods_ = 0;
  std::uint32_t pause_periods_ = 0;  // until the group is formed again
  std::uint32_t shortages_ = 0;      // pauses in a row
  bool kv_lost_ = false, was_ready_ = false;
  bool stop_wanted_ = false, ended_ = false, advancing_ = false;
};

}  // namespace phalanx::engine
