// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "phalanx/ipc/bound_channel.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/memfd.h"
#include "phalanx/supervise/posix_process_runner.h"
#include "phalanx/supervise/supervisor.h"
#include "phalanx/wire/bootstrap.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::fleet {

// Hears what becomes of the replicas as a whole. Loop thread.
struct ReplicaEvents {
  // May take work (again). Replicas of equal numerics can go on with each other's sequences.
  std::function<void(ReplicaId, std::uint64_t numerics_fingerprint)> on_ready;
  std::function<void(ReplicaId)> on_down;  // takes no new work for now
  std::function<void(ReplicaId)> on_lost;  // its incarnation is over
  // It is reaped. `own`: by what it was doing, not by a signal, a stop or an end that was asked
  // for. True: the death is held against requests, and costs the replica no restart.
  std::function<bool(ReplicaId, bool own, const std::string& how)> on_died;
  std::function<void(ReplicaId, bool draining)> on_draining;  // as an operator wants it
  std::function<void(ReplicaId, const wire::TokenBatch&)> on_tokens;
  std::function<void(ReplicaId, const wire::ReplicaHolding&)> on_holding;
  std::function<void(ReplicaId, const Error& cause)> on_failed;  // not started again by itself
  std::function<void()> on_stopped;  // no replica process is left, and none will start
};

// What the replicas are told at their start.
struct ReplicaStart {
  std::vector<os::SpawnPlan> spawn;    // what to run, by replica: as many as there shall be
  wire::ReplicaBootstrap bootstrap;    // of all of them; bootstrap() adds what is each one's own
  std::vector<os::CpuList> rank_cpus;  // [replica · tp + rank]
  supervise::SupervisorOptions supervision;
};

// The replicas as processes: starts and supervises them, carries frames, keeps their reports, and
// tells which of them may take work.
//
// Ownership: owns processes and channels; borrows loop, context and the arena's descriptor.
// Threads: the loop thread; on_dying() runs on watcher threads and only posts.
class ReplicaHost final : public supervise::ChildHost, public supervise::SupervisorListener {
 public:
  ReplicaHost(os::EventLoop& loop,
              ipc::ZmqContext& context,
              ReplicaStart start,
              ReplicaEvents events);
  ReplicaHost(const ReplicaHost&) = delete;
  ReplicaHost& operator=(const ReplicaHost&) = delete;
  ~ReplicaHost() override;

  // `arena` is the sealed arena's descriptor, or -1; `lifeline_pipe` the read end whose other end
  // only the leader holds.
  void start(int arena, int lifeline_pipe);

  // Every replica process ends: politely first when `drain`.
  void stop_all();
  void kill_all();

  // Operator's commands; kNotFound for a replica that is not there.
  [[nodiscard]] Status drain(ReplicaId replica);
  [[nodiscard]] Status resume(ReplicaId replica);
  [[nodiscard]] Status restart(ReplicaId replica);
  void rolling_restart();  // one after the other, each after the one before is ready

  void on_tick();

  [[nodiscard]] std::size_t size() const { return slots_.size(); }
  [[nodiscard]] supervise::SlotStatus status(ReplicaId replica) const {
    return supervisor_->status(replica.value());
  }
  [[nodiscard]] const std::map<ReplicaId, wire::ReplicaStatus>& reports() const { return reports_; }
  [[nodiscard]] bool all_ready() const { return supervisor_->ready() == slots_.size(); }
  [[nodiscard]] bool all_failed() const { return supervisor_->failed() == slots_.size(); }
  [[nodiscard]] bool any_may_serve() const;

  [[nodiscard]] wire::Sent send(ReplicaId replica, const wire::LeaderMessage& message);

  // ChildHost
  [[nodiscard]] os::SpawnPlan plan(std::size_t slot, Incarnation incarnation) override;
  [[nodiscard]] Result<supervise::Bootstrap> bootstrap(std::size_t index,
                                                       Incarnation incarnation,
                                                       pid_t pid) override;
  void ask_to_stop(std::size_t slot) override;
  void on_record(std::size_t slot, Incarnation incarnation, os::ControlMessage message) override;
  void on_dying(std::size_t slot, Incarnation incarnation) override;
  void on_stopped_by_signal(std::size_t slot, Incarnation incarnation) override;
  void on_exit(const supervise::Death& death) override;

  // SupervisorListener
  void on_slot_ready(std::size_t slot, Incarnation incarnation) override;
  void on_slot_down(std::size_t slot, Incarnation incarnation) override;
  void on_slot_death(const supervise::Death& death) override;
  void on_slot_failed(std::size_t slot, const Error& cause) override;
  void on_slot_stopped(std::size_t slot) override;
  void on_slot_stuck(std::size_t slot, pid_t pid) override;

 private:
  struct Slot {
    Incarnation incarnation;
    std::unique_ptr<ipc::BoundChannel> channel;
    bool proven = false;            // its hello carried the secret
    bool was_ready = false;         // in this incarnation
    bool ending = false;            // it was asked to stop, or said that it gives up
    bool hung = false;              // its heartbeats had ended
    bool serves = false;            // was told by on_ready() and not taken back
    std::uint64_t numerics = 0;     // fingerprint that it named with its readiness
    std::uint32_t quiet_ticks = 0;  // ticks on time since its last heartbeat
    std::unique_ptr<os::EventLoop::Handle> burial;  // it is dead, its ranks are not yet
  };

  void on_frame(std::size_t index, Incarnation incarnation, std::string_view bytes);
  void on_bad_frame(std::size_t index,
                    Incarnation incarnation,
                    std::string_view bytes,
                    const Error& error);
  void on_message(std::size_t index, Incarnation incarnation, const wire::ReplicaMessage& message);
  void on_ready_message(std::size_t index,
                        Incarnation incarnation,
                        const wire::ReplicaReady& ready);
  void on_status(std::size_t index, Incarnation incarnation, const wire::ReplicaStatus& status);
  void lose(std::size_t index);
  void bury(const supervise::Death& death, SteadyTime deadline);
  [[nodiscard]] Status check(ReplicaId replica) const;

  os::EventLoop& loop_;
  ipc::ZmqContext& context_;
  ReplicaStart start_;
  ReplicaEvents events_;
  Duration stop_timeout_;
  int arena_ = -1;
  int lifeline_pipe_ = -1;
  bool stopping_ = false;
  SteadyTime last_tick_{};
  std::vector<Slot> slots_;
  std::map<ReplicaId, wire::ReplicaStatus> reports_;
  std::vector<std::size_t> rolling_;  // slots still to be restarted, last first
  std::unique_ptr<supervise::PosixProcessRunner> runner_;
  std::unique_ptr<supervise::Supervisor> supervisor_;
};

}  // namespace phalanx::fleet
