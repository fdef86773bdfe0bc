// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/supervise/death.h"
#include "phalanx/supervise/process_runner.h"
#include "phalanx/supervise/restart_policy.h"
#include "phalanx/supervise/service_machine.h"

namespace phalanx::supervise {

struct SupervisorOptions {
  const char* what = "replica";  // a slot holds, for the log
  RestartPolicyOptions restart;
  Duration start_timeout = std::chrono::seconds(120);  // without progress
  Duration stop_timeout = std::chrono::seconds(10);    // after the message
  Duration term_timeout = std::chrono::seconds(2);     // after SIGTERM
  Duration kill_timeout = std::chrono::seconds(5);     // after SIGKILL, until it counts as stuck
  Duration death_timeout = std::chrono::seconds(60);   // from on_dying() to on_exit(), then SIGKILL
};

// Hears what becomes of the slots. Called from inside the supervisor's calls, after the state has
// changed; may call the supervisor's commands.
class SupervisorListener {
 public:
  SupervisorListener() = default;
  SupervisorListener(const SupervisorListener&) = delete;
  SupervisorListener& operator=(const SupervisorListener&) = delete;
  virtual ~SupervisorListener() = default;

  virtual void on_slot_ready(std::size_t slot, Incarnation incarnation) = 0;
  virtual void on_slot_down(std::size_t slot, Incarnation incarnation) = 0;  // was ready
  virtual void on_slot_death(const Death& death) = 0;  // of any incarnation, wanted or not
  virtual void on_slot_failed(std::size_t slot, const Error& cause) = 0;
  virtual void on_slot_stopped(std::size_t slot) = 0;
  // SIGKILL was sent, once for each process: its words count no more, and its death may take time.
  virtual void on_slot_doomed(std::size_t /*slot*/) {}
  // SIGKILL had no effect in time: the process hangs in the kernel.
  virtual void on_slot_stuck(std::size_t slot, pid_t pid) = 0;
};

struct SlotStatus {
  State state = State::kStopped;
  Incarnation incarnation;     // of the latest process; 0 before the first
  pid_t pid = 0;               // 0 without a process
  std::uint32_t restarts = 0;  // starts after the first one
  std::string last_error;      // of the latest death or failed start that was not wanted
  SteadyTime since;            // in this state
  bool ever_ready = false;
};

// Keeps a set of process slots alive by the table of service_machine.h. It has no loop: whoever
// owns it calls on_tick() at next_deadline(), or more often. Slots are told apart by their index
// only, so replicas and ranks are supervised alike.
//
// Reports about an incarnation that is not the slot's present one are ignored.
// Threads: one.
// Blocks: as the runner.
class Supervisor {
 public:
  Supervisor(std::size_t slots,
             const SupervisorOptions& options,
             ProcessRunner& runner,
             SupervisorListener& listener,
             const Clock& clock);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();

  // Commands. restart() ends a living process politely and starts the slot again; a slot without
  // process it starts at once, out of kFailed as well.
  void start(std::size_t slot);
  void start_all();
  void drain(std::size_t slot);
  void resume(std::size_t slot);
  void restart(std::size_t slot);
  void stop(std::size_t slot);
  void stop_all();
  void kill_all();  // of what still lives; the second signal of an impatient operator
  // It is of no use any more: SIGKILL, and `why` becomes the cause of its death.
  void condemn(std::size_t slot, Incarnation incarnation, const Error& why);

  // What the slots are for has started as a whole. Until then a slot that was never ready fails
  // with its first death or failed start. From here on none is final by itself, of whatever status
  // and in whatever slot: it is followed by a restart within the intensity, to which what ends or
  // cannot start for want of memory, processes or descriptors does not count.
  void end_first_start() { lenient_ = true; }

  // From here on the starts of this slot have no timeout: it runs under a tool that may be slow.
  void be_patient_with(std::size_t slot) { slots_[slot].patient = true; }

  // Reports.
  void on_progress(std::size_t slot, Incarnation incarnation);
  void on_ready(std::size_t slot, Incarnation incarnation);
  void on_recovering(std::size_t slot, Incarnation incarnation);
  void on_hung(std::size_t slot, Incarnation incarnation, const std::string& evidence);
  // Its end has begun, whatever its cause, and it serves nobody: on_exit() follows.
  void on_dying(std::size_t slot, Incarnation incarnation);
  // The child names why it is about to end: becomes the cause of its death.
  void on_failure(std::size_t slot, Incarnation incarnation, const Error& error);
  void on_exit(Death death);  // the process is reaped

  void on_tick();
  [[nodiscard]] std::optional<SteadyTime> next_deadline() const;

  [[nodiscard]] SlotStatus status(std::size_t slot) const;
  // No slot has a process, but for stuck ones, or will start one by itself.
  [[nodiscard]] bool all_stopped() const;
  [[nodiscard]] std::size_t failed() const;  // slots in kFailed

 private:
  enum class StopPhase { kNone, kAsked, kTerminated, kKilled };
  struct Slot {
    Slot(const RestartPolicyOptions& options, std::uint64_t seed) : policy(options, seed) {}
    SlotStatus status;
    RestartPolicy policy;
    std::optional<SteadyTime> deadline;  // kDeadline, or kBackoffOver in kBackoff
    StopPhase phase = StopPhase::kNone;
    std::optional<Error> reported;  // by on_failure()
    std::optional<Error> error;     // cause of the failure that is being handled
    Death death;                    // being handled
    bool said_ready = false;        // this incarnation
    bool dying = false;             // by itself: its words count no more
    bool doomed = false;            // SIGKILL was sent: likewise
    SteadyTime dies_by;             // one that is dying or doomed
    bool stuck = false;             // and had no effect in time
    bool restart_wanted = false;
    bool patient = false;
    std::string told;  // by the log: why no process could be started
  };
  void post(std::size_t slot, Event event);
  void apply(std::size_t index, Event event);
  void perform(std::size_t index, Action action);
  void tell_death(std::size_t index);
  void spawn(std::size_t index);
  void kill(std::size_t index);
  void doom(std::size_t index);
  void begin_stop(std::size_t index);
  void schedule_restart(std::size_t index);
  void escalate(std::size_t index);
  void fail(std::size_t index);
  void stopped(std::size_t index);
  void report(std::size_t slot, Incarnation incarnation, Event event);
  // Whether an end is final for this slot, which has one now.
  [[nodiscard]] bool is_final(const Slot& slot) const;
  [[nodiscard]] Slot* current(std::size_t slot, Incarnation incarnation);

  SupervisorOptions options_;
  ProcessRunner& runner_;
  SupervisorListener& listener_;
  const Clock& clock_;
  std::vector<Slot> slots_;
  std::deque<std::pair<std::size_t, Event>> events_;
  bool handling_ = false;
  bool lenient_ = false;
};

}  // namespace phalanx::supervise
