// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/bisection.h"
#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/engine/kv_memory.h"
#include "phalanx/engine/rank_group.h"
#include "phalanx/engine/request_log.h"
#include "phalanx/engine/result_ring.h"
#include "phalanx/engine/scheduler.h"
#include "phalanx/engine/step_budget.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/step/table_digest.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::engine {

// Where a replica's messages go. Called from inside the engine's calls; must not call back.
class ReplicaSink {
 public:
  ReplicaSink() = default;
  ReplicaSink(const ReplicaSink&) = delete;
  ReplicaSink& operator=(const ReplicaSink&) = delete;
  virtual ~ReplicaSink() = default;

  // TokenBatch, ReplicaStatus, ReplicaHolding, PrefixChanges, ReplicaReady and ReplicaFailed, in
  // order; after ReplicaFailed nothing.
  virtual void send(wire::ReplicaMessage message) = 0;
  // False while frames wait for the leader: then no step begins and no heartbeat is sent. Call
  // on_wake() when it is true again.
  [[nodiscard]] virtual bool takes() const = 0;

  // The last call, once, and of the ranks what GroupClient::on_stopped() says. Ok after a drain;
  // otherwise what ended the replica (its ReplicaFailed was sent before).
  virtual void on_stopped(const Status& status) = 0;
};

// Wakes the engine.
class WakeUp {
 public:
  WakeUp() = default;
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;
  virtual ~WakeUp() = default;

  // Calls ReplicaEngine::on_wake() once, `delay` from now. Replaces what was asked for before.
  virtual void wake_after(Duration delay) = 0;
};

struct ReplicaOptions {
  ReplicaId replica;  // for the log
  SchedulerOptions scheduler;
  Duration max_step{};        // of StepBudget, as is …
  double row_reads = 4096.0;  // … this
  GroupOptions group;
  std::uint64_t memory_bytes = 0;    // told in ReplicaReady
  std::uint32_t status_periods = 5;  // of options.group.progress.period between two heartbeats, …
  std::uint32_t idle_periods = 10;  // … and between two ticks of a replica that has nothing to do
};

// One replica: scheduler and rank group joined. Work comes in as the leader's messages, effects go
// out through the ports; the program around it owns the sockets, processes and the timer.
//
//   - Steps run one after another while there is work; cancellations and new work enter between
//     steps. When all that a step leaves to do is to go on decoding, the next one is sent when the
//     step is about to end, before its tokens are known: ranks then wait for nobody between the two.
//     A sequence that has ended by such a token, or was cancelled, is computed once more for nothing.
//   - Every submitted key gets exactly one final TokenUpdate, or a ReplicaFailed ends them all.
//     Refusals are final updates with kError. A second Submit of a key is ignored; one of a higher
//     attempt ends the lower one; one of a lower attempt, and a Cancel of an unknown key, are
//     answered with kCancelled.
//   - While the group recovers, work is accepted and waits.
//   - The sequences of a step that was blamed for its failure are run again in halves, while the
//     others wait. One that kills alone twice ends with kPoisoned.
//   - stop(drain) refuses new work (kUnavailable) and ends when the last sequence has; without
//     drain, or past its deadline, what is there ends with kUnavailable, which the leader may
//     dispatch elsewhere.
//
// Threads: one; every call from the loop thread.
// Blocks: only where memory for the KV is taken, as KvMemory::back().
class ReplicaEngine final : private GroupClient {
 public:
  // Requires validate(options.scheduler). The references outlive the engine.
  ReplicaEngine(const ReplicaOptions& options,
                GroupPort& port,
                ResultSource& results,
                KvMemory& kv,
                ReplicaSink& sink,
                WakeUp& wake_up,
                const Clock& clock);
  ReplicaEngine(const ReplicaEngine&) = delete;
  ReplicaEngine& operator=(const ReplicaEngine&) = delete;
  ~ReplicaEngine() override;

  void start();

  void submit(const wire::Submit& submit);
  void cancel(const wire::Cancel& cancel);
  void stop(const wire::StopReplica& stop);
  // Its ranks are to end: what they still compute nobody waits for.
  [[nodiscard]] bool group_stopping() const { return group_stopping_; }
  void handle(const wire::LeaderMessage& message);  // any of the three

  // A Submit of this key came and could not be read: the key ends with `error`, as every key ends.
  void refuse_submit(const wire::SequenceKey& key, const Error& error);

  // Events of the ranks; see RankGroup.
  void on_reply(RankId rank, const wire::RankReply& reply);
  void on_death(RankId rank, const RankDeath& death);
  void on_lifeline_free(RankId rank);
  void on_stopped_by_signal(RankId rank);
  void on_writable(RankId rank);

  // A timer armed for `periods` of options.group.progress.period is over; the next is armed for
  // tick_periods(), and anew when an event lowers that, or what is judged by ticks comes later.
  void on_tick(std::uint32_t periods);
  [[nodiscard]] std::uint32_t tick_periods() const;

  void on_wake();  // as asked for by WakeUp, and when the sink takes() again

  [[nodiscard]] wire::ReplicaStatus status() const;
  [[nodiscard]] const Scheduler& scheduler() const { return scheduler_; }
  [[nodiscard]] const RankGroup& group() const { return group_; }

 private:
  using Choice = std::pair<RequestId, ChoiceIndex>;

  [[nodiscard]] Attachment attachment(bool kv_lost) override;
  [[nodiscard]] bool revise(wire::RankCommand* command) override;
  [[nodiscard]] wire::RankCommand self_test() override;
  [[nodiscard]] Result<std::uint64_t> take_results(const wire::RankCommand& command) override;
  void on_blamed(const Error& cause) override;
  void on_ready(Epoch epoch) override;
  void on_idle() override;
  void on_step(const wire::RankCommand& command, const CollectiveStep& step) override;
  void on_fault(const StepFault& fault) override;
  void on_failed(const Error& error) override;
  void on_stopped() override;

  void pump();  // the one place that starts a step
  [[nodiscard]] std::optional<StepPlan> next_plan();
  void acquit(const StepPlan& plan);
  void measure(const StepPlan& plan, const wire::RankCommand& command, Epoch epoch);
  void begin_step(StepPlan plan);
  void run_ahead();
  void forget_plans();
  void refuse(const wire::SequenceKey& key, const Error& error);
  void publish(StepId step, std::vector<wire::TokenUpdate> updates);
  void publish_one(wire::TokenUpdate update);
  [[nodiscard]] bool admit_attempt(const wire::SequenceKey& key);
  void remember(const Choice& choice, Attempt attempt);
  void stop_now();
  void end_group(bool after_step);
  void send_status();
  void send_holding();
  void send_prefix_changes();
  [[nodiscard]] std::uint32_t admitted_by_step() const;

  ReplicaOptions options_;
  ResultSource& results_;
  ReplicaSink& sink_;
  WakeUp& wake_up_;
  const Clock& clock_;
  Scheduler scheduler_;
  KvBacking kv_;
  step::TableDigest digest_;
  RankGroup group_;
  RequestLog log_;
  Bisection<SequenceId> bisection_;
  std::map<SequenceId, std::uint32_t> blamed_at_;  // ends of rows in the step that was blamed
  std::optional<StepPlan> plan_;                   // of the step in flight
  std::optional<StepPlan> ahead_;                  // of the one sent behind it
  std::vector<step::SampleResult> samples_;
  SteadyTime step_started_;
  Epoch step_epoch_;  // in which it was begun
  StepBudget budget_;

  std::map<Choice, Attempt> attempts_;  // highest seen; bounded, oldest forgotten
  std::deque<Choice> attempt_order_;

  std::optional<SteadyTime> stop_deadline_;
  bool stopping_ = false;
  bool group_stopping_ = false;
  std::uint64_t effects_ = 0;       // Submit and Cancel frames so far
  wire::SequenceKey holding_from_;  // where the next ReplicaHolding goes on
  std::uint32_t periods_since_status_ = 0;
  std::string last_error_;
  std::optional<Error> failure_;
};

}  // namespace phalanx::engine
