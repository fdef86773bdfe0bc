// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "phalanx/engine/kv_memory.h"
#include "phalanx/engine/rank_group.h"
#include "phalanx/engine/result_ring.h"
#include "phalanx/fleet/epoch_segment.h"
#include "phalanx/fleet/slot_memory.h"
#include "phalanx/ipc/bound_channel.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/supervise/posix_process_runner.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::engine {
class ReplicaEngine;
}

namespace phalanx::fleet {

// The ranks of a replica as processes: spawns them over the memory of their slots, carries the
// engine's frames, and tells the engine what becomes of them.
//
// Ownership: owns memory, channels and processes; borrows loop and context. The engine is set once,
// before start.
// Threads: the loop thread; on_dying() runs on the watcher threads and only raises the abort and
// posts.
class RankHost final : public engine::GroupPort,
                       public engine::KvMemory,
                       public supervise::ChildHost {
 public:
  // `spawn` says what to run for each rank.
  RankHost(os::EventLoop& loop,
           ipc::ZmqContext& context,
           const wire::ReplicaBootstrap& bootstrap,
           std::vector<os::SpawnPlan> spawn,
           int lifeline_pipe,
           int arena);
  RankHost(const RankHost&) = delete;
  RankHost& operator=(const RankHost&) = delete;
  ~RankHost() override;

  // Makes the memory of every slot, `sizes` by rank, the first KV blocks included. Errors:
  // kResourceExhausted.
  [[nodiscard]] Status reserve(const std::vector<SlotSizes>& sizes);
  void set_engine(engine::ReplicaEngine* engine) { engine_ = engine; }

  [[nodiscard]] engine::ResultSource& results() { return *results_; }
  [[nodiscard]] std::uint64_t memory_bytes() const;

  // GroupPort
  [[nodiscard]] wire::Sent send(RankId rank, std::string_view frame) override;
  void raise_abort() override { segment_.raise_abort(); }
  void kill(RankId rank) override;
  [[nodiscard]] Status respawn(RankId rank, Incarnation incarnation) override;
  [[nodiscard]] Status new_segment(Epoch epoch) override;
  [[nodiscard]] std::uint64_t progress(RankId rank) override;

  // KvMemory
  [[nodiscard]] Backed back(std::uint32_t blocks) override;
  void forget() override;

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
  struct Slot {
    SlotMemory memory;
    Incarnation incarnation;
    std::unique_ptr<ipc::BoundChannel> channel;
    std::string reported;           // the failure that the present incarnation told
    bool lacked_resources = false;  // of which it was
  };

  void on_frame(RankId rank, std::string_view frame);

  os::EventLoop& loop_;
  ipc::ZmqContext& context_;
  const wire::ReplicaBootstrap& config_;
  std::vector<os::SpawnPlan> spawn_;
  int lifeline_pipe_;
  int arena_;
  engine::ReplicaEngine* engine_ = nullptr;
  // Rows that the ranks exchange within a step. It outlives epochs, as the slots' memory does: no
  // rank of one is left in a step when the next begins.
  os::Memfd exchange_;
  EpochSegmentHolder segment_;
  std::atomic<Duration::rep> last_dying_{
      0};  // steady time of the latest lifeline that came free, for the log
  std::vector<Slot> slots_;
  Status kv_status_;  // of the latest extent
  os::Mapping result_mapping_;
  std::unique_ptr<engine::ResultSource> results_;
  std::unique_ptr<supervise::PosixProcessRunner> runner_;
};

}  // namespace phalanx::fleet
