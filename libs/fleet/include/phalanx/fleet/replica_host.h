// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "phalanx/fleet/burials.h"
#include "phalanx/fleet/replica_slots.h"
#include "phalanx/ipc/bound_channel.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/memfd.h"
#include "phalanx/supervise/posix_process_runner.h"
#include "phalanx/wire/bootstrap.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::fleet {

// What the replicas are told at their start.
struct ReplicaStart {
  std::vector<os::SpawnPlan> spawn;    // what to run, by replica: as many as there shall be
  wire::ReplicaBootstrap bootstrap;    // of all of them; bootstrap() adds what is each one's own
  std::vector<os::CpuList> rank_cpus;  // [replica · tp + rank]
  supervise::SupervisorOptions supervision;
};

// The replicas as processes: starts them, carries frames, and tells ReplicaSlots, which judges,
// what comes of them.
//
// Ownership: owns processes and channels; borrows loop, context and the arena's descriptor.
// Threads: the loop thread; on_dying() runs on watcher threads and only posts.
class ReplicaHost final : public supervise::ChildHost {
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

  [[nodiscard]] ReplicaSlots& slots() { return *slots_; }

  [[nodiscard]] wire::Sent send(ReplicaId replica, const wire::LeaderMessage& message);

  // ChildHost
  [[nodiscard]] os::SpawnPlan plan(std::size_t slot, Incarnation incarnation) override;
  [[nodiscard]] Result<supervise::Bootstrap> bootstrap(std::size_t index,
                                                       Incarnation incarnation,
                                                       pid_t pid) override;
  void ask_to_stop(std::size_t slot) override;
  void on_record(std::size_t slot,
                 Incarnation incarnation,
                 Result<os::ControlMessage> received) override;
  void on_dying(std::size_t slot, Incarnation incarnation) override;
  void on_stopped_by_signal(std::size_t slot, Incarnation incarnation) override;
  void on_exit(const supervise::Death& death) override;

 private:
  struct Link {
    Incarnation incarnation;
    std::unique_ptr<ipc::BoundChannel> channel;
  };

  void on_frame(std::size_t index, Incarnation incarnation, std::string_view bytes);
  void on_bad_frame(std::size_t index,
                    Incarnation incarnation,
                    std::string_view bytes,
                    const Error& error);
  void on_message(std::size_t index, Incarnation incarnation, const wire::ReplicaMessage& message);
  void lose(std::size_t index);
  void await_orphans();

  os::EventLoop& loop_;
  ipc::ZmqContext& context_;
  ReplicaStart start_;
  ReplicaEvents events_;
  Duration stop_timeout_;
  int arena_ = -1;
  int lifeline_pipe_ = -1;
  std::vector<Link> links_;
  Burials burials_;
  std::unique_ptr<os::EventLoop::Handle> orphan_poll_;
  std::unique_ptr<os::EventLoop::Handle> look_around_;
  std::unique_ptr<supervise::PosixProcessRunner> runner_;
  std::unique_ptr<ReplicaSlots> slots_;
};

}  // namespace phalanx::fleet
