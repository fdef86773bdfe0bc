// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "phalanx/engine/rank_group.h"
#include "phalanx/engine/rank_loop.h"
#include "phalanx/engine/result_ring.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"

#include "support/cell_runner.h"
#include "support/faulty_transport.h"
#include "support/table_memory.h"
#include "support/virtual_time.h"

namespace phalanx::testing {

struct ClusterOptions {
  std::uint32_t ranks = 2;
  std::uint32_t max_num_seqs = 4;
  std::uint32_t max_num_batched_tokens = 64;
  std::uint32_t max_model_len = 256;
  std::uint32_t kv_blocks = 64;
  std::uint32_t vocab_size = 1000;
  std::uint64_t secret = 77;
  std::uint64_t seed = 1;
  Millis work = 4;                   // of a step, once all ranks have met
  std::uint32_t rows_per_milli = 0;  // 0: rows cost nothing
  Millis jitter = 3;                 // a rank finishes up to so much later than another
  Millis connect = 2;                // from the spawn until the link takes frames
  Millis reap = 6;                   // from a death until the process is gone
};

// Who hears what happens to the ranks.
class ClusterListener {
 public:
  ClusterListener() = default;
  ClusterListener(const ClusterListener&) = delete;
  ClusterListener& operator=(const ClusterListener&) = delete;
  virtual ~ClusterListener() = default;
  virtual void on_reply(RankId rank, const wire::RankReply& reply) = 0;
  virtual void on_death(RankId rank, const engine::RankDeath& death) = 0;
  virtual void on_lifeline_free(RankId rank) = 0;
  virtual void on_writable(RankId rank) = 0;
};

// The ranks of one replica without processes: real command loops over a CellRunner, links that go
// through a FaultyTransport, memory that outlives its rank, communicators that hold everybody until
// all have come or the abort word is raised. Every rank can be killed, frozen and made to fail.
//
// It checks what only the outside can see: no second process in a slot, no memory handed on before
// its owner is gone, no collective joined by ranks of different epochs.
class RankCluster final : public engine::GroupPort {
 public:
  RankCluster(const ClusterOptions& options, FaultyTransport& transport, const VirtualTime& time);
  ~RankCluster() override;

  void listen(ClusterListener& listener) { listener_ = &listener; }

  // One millisecond of the ranks' lives.
  void advance();

  // ---- faults
  void crash(RankId rank, int signal, DeathOrigin origin = DeathOrigin::kSent);
  // Rank 0 crashes by itself whenever it computes a step with an item that this holds for.
  void poison(std::function<bool(const step::StepItem&)> deadly) { deadly_ = std::move(deadly); }
  void starve_of_poison() { poison_starves_ = true; }  // then it lacks memory instead
  void exit(RankId rank, int status);
  void starve(RankId rank);  // it ends, and says that it lacks memory
  void freeze(RankId rank) { slots_[rank.value()].frozen = true; }
  // Freezes it by a signal: its death says so.
  void stop(RankId rank) { slots_[rank.value()].frozen = slots_[rank.value()].stopped = true; }
  void thaw(RankId rank) { slots_[rank.value()].frozen = false; }
  // The next time the rank executes `op` it answers with this; an `internal` error is thrown.
  void fail_next(RankId rank, wire::RankOp op, Error error);
  // Changes every KV cell of the rank: it goes on, and computes something else.
  void corrupt_memory(RankId rank);
  // The next step that gives the rank a new KV block gives it another one.
  void misplace_next_block(RankId rank) { slots_[rank.value()].misplaces_block = true; }
  void refuse_respawns(Error error) { respawn_error_ = std::move(error); }
  void allow_respawns() { respawn_error_.reset(); }
  // So many of the next ranks end for want of resources as soon as they have begun.
  void starve_next(std::uint32_t ranks) { starving_ = ranks; }
  void fail_next_segment(Error error) { segment_error_ = std::move(error); }
  void set_reap(Millis reap) { options_.reap = reap; }
  void hide_lifelines() { lifelines_ = false; }
  // What ranks spawned from now on say of themselves.
  void set_identity(RankId rank, engine::RunnerIdentity identity) {
    slots_[rank.value()].identity = identity;
  }
  void set_secret(std::uint64_t secret) { options_.secret = secret; }

  // ---- facts
  [[nodiscard]] engine::ResultRing& ring(RankId rank) { return *slots_[rank.value()].ring; }
  [[nodiscard]] bool executing(RankId rank, wire::RankOp op) const;
  // Is this step, of whatever epoch, what the rank is at?
  [[nodiscard]] bool executing(RankId rank, StepId step) const;
  [[nodiscard]] bool alive(RankId rank) const { return slots_[rank.value()].process != nullptr; }
  [[nodiscard]] std::uint32_t live_ranks() const;
  [[nodiscard]] std::uint64_t aborts() const { return aborts_; }
  [[nodiscard]] std::uint64_t kills() const { return kills_; }
  [[nodiscard]] std::uint64_t spawns() const { return spawns_; }
  [[nodiscard]] std::uint64_t count(wire::RankOp op) const;  // replies sent to that operation
  [[nodiscard]] Epoch segment() const { return segment_; }
  // Of the last reply with kAborted: milliseconds after the abort was raised.
  [[nodiscard]] std::optional<Millis> abort_answered_after() const { return abort_answered_; }

  // ---- engine::GroupPort
  [[nodiscard]] wire::Sent send(RankId rank, std::string_view frame) override;
  void raise_abort() override;
  void kill(RankId rank) override;
  [[nodiscard]] Status respawn(RankId rank, Incarnation incarnation) override;
  [[nodiscard]] Status new_segment(Epoch epoch) override;
  [[nodiscard]] std::uint64_t progress(RankId rank) override;

 private:
  struct Process {
    Process(const engine::RankLoopOptions& options,
            const step::RankLimits& limits,
            CellMemory& memory,
            engine::ResultRing& ring,
            std::uint32_t vocab_size)
        : table(limits, vocab_size),
          runner(memory, vocab_size),
          loop(options, *table, runner, ring) {}
    TableMemory table;
    CellRunner runner;
    engine::RankLoop loop;
    std::deque<std::string> inbox;
    std::optional<wire::RankCommand> command;
    std::optional<Millis> finish_at;
    Epoch epoch;
    std::tuple<Epoch, StepId, wire::RankOp> last_taken;
    Millis connected_at = 0;
    bool announced = false;
  };
  struct Slot {
    explicit Slot(const ClusterOptions& options);
    CellMemory memory;
    std::vector<step::SampleResult> rows;
    std::unique_ptr<engine::ResultRing> ring;
    std::unique_ptr<Process> process;
    Incarnation incarnation;
    std::uint64_t progress = 0;
    bool misplaces_block = false;
    bool frozen = false;
    bool stopped = false;
    bool gone = true;  // no process holds the memory
    std::optional<std::pair<wire::RankOp, Error>> failure;
    engine::RunnerIdentity identity{11, 22};
  };
  struct Event {
    Millis at = 0;
    std::function<void()> run;
  };

  [[nodiscard]] static bool is_collective(wire::RankOp op);
  [[nodiscard]] Slot& slot(RankId rank) { return slots_[rank.value()]; }
  [[nodiscard]] std::uint64_t draw(std::uint64_t below);
  void deliver();
  void work(RankId rank);
  void take_command(RankId rank);
  void meet(const wire::RankCommand& command);
  void finish(RankId rank, Status outcome);
  void perish(RankId rank, engine::RankDeath death);
  void after(Millis delay, std::function<void()> run);
  void run_events();
  void misplace_block(Slot& own, wire::RankCommand* command) const;

  ClusterOptions options_;
  FaultyTransport& transport_;
  const VirtualTime& time_;
  ClusterListener* listener_ = nullptr;
  std::vector<Slot> slots_;
  std::vector<Event> events_;
  std::map<Epoch, Millis> aborted_;  // when the abort word of that epoch was raised
  std::map<wire::RankOp, std::uint64_t> replies_;
  std::optional<Error> respawn_error_;
  std::uint32_t starving_ = 0;
  std::optional<Error> segment_error_;
  std::function<bool(const step::StepItem&)> deadly_;
  std::optional<Millis> abort_answered_;
  Epoch segment_;
  bool poison_starves_ = false, lifelines_ = true;
  std::uint64_t random_;
  std::uint64_t aborts_ = 0;
  std::uint64_t kills_ = 0, spawns_ = 0;
  std::uint64_t corruptions_ = 0;
};

}  // namespace phalanx::testing
