// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "phalanx/engine/replica_engine.h"

#include "support/faulty_transport.h"
#include "support/rank_cluster.h"
#include "support/virtual_time.h"

namespace phalanx::testing {

// What a leader knows of one replica: for each key what it asked for, what came, and what the
// ledger holds. Complains about every token that is lost, doubled, misplaced or wrong, about a
// second end, and about anything after the end.
class LeaderBook final : public engine::ReplicaSink {
 public:
  struct Entry {
    wire::Submit submit;
    std::vector<TokenId> tokens;  // produced, history included
    std::uint64_t to_compute = 0;
    std::uint64_t to_generate = 0;
    bool cancelled = false;
    std::optional<wire::TokenUpdate> end;
    std::size_t blocks_told = 0;  // of the prefix cache, up to the end
  };

  explicit LeaderBook(std::uint32_t vocab_size) : vocab_size_(vocab_size) {}

  void book(const wire::Submit& submit);
  void cancel(const wire::SequenceKey& key) { entries_.at(key).cancelled = true; }

  void send(wire::ReplicaMessage message) override;
  [[nodiscard]] bool takes() const override { return takes_frames; }
  void on_stopped(const Status& status) override;

  [[nodiscard]] const Entry& at(const wire::SequenceKey& key) const { return entries_.at(key); }
  [[nodiscard]] bool open(const wire::SequenceKey& key) const { return !at(key).end; }
  [[nodiscard]] std::size_t open_count() const;
  [[nodiscard]] const std::map<wire::SequenceKey, Entry>& entries() const { return entries_; }

  std::vector<wire::ReplicaReady> ready;
  std::vector<wire::ReplicaStatus> statuses;
  std::vector<wire::ReplicaFailed> failed;
  std::vector<wire::ReplicaHolding> holdings;
  std::vector<StepId> steps;    // of the batches with tokens
  std::size_t blocks_told = 0;  // published by the prefix cache
  std::optional<Status> stopped;
  bool takes_frames = true;

 private:
  void accept(const wire::TokenUpdate& update);

  std::uint32_t vocab_size_;
  std::map<wire::SequenceKey, Entry> entries_;
};

// KV memory of so many blocks as a test says.
class FakeKvMemory final : public engine::KvMemory {
 public:
  [[nodiscard]] Backed back(std::uint32_t blocks) override {
    ++calls;
    backed = std::max(backed, std::min({blocks, available, backed + piece}));
    return {backed, backed < blocks && backed >= available};
  }
  void forget() override { backed = 0; }

  std::uint32_t available = UINT32_MAX;  // blocks that there is memory for
  std::uint32_t piece = 1U << 30;        // blocks that one call gives
  std::uint32_t backed = 0;
  std::uint32_t calls = 0;
};

// Wakes at the first millisecond that is not before it was asked to.
class FakeWakeUp final : public engine::WakeUp {
 public:
  explicit FakeWakeUp(const VirtualTime& time) : time_(time) {}
  void wake_after(Duration delay) override { at_ = time_.now() + delay; }
  // Is it time? Only once.
  [[nodiscard]] bool take() {
    const bool due = at_ && time_.now() >= *at_;
    if (due) {
      at_.reset();
    }
    return due;
  }

 private:
  const VirtualTime& time_;
  std::optional<SteadyTime> at_;
};

struct WorldOptions {
  ClusterOptions cluster;
  std::uint32_t max_waiting = 64;
  std::uint32_t restart_limit = 5;
  std::uint32_t ping_periods = 0;
  Millis max_step = 0;
  bool prefix_cache = false;
  bool patient = false;  // a rank runs under a wrapper
};

// One replica engine over a simulated rank group, a millisecond at a time.
class ReplicaWorld final : private ClusterListener {
 public:
  explicit ReplicaWorld(const WorldOptions& options);

  // Makes a request of `prompt` tokens for `max_tokens`, seeded with its number.
  [[nodiscard]] wire::Submit request(std::uint64_t number,
                                     std::uint32_t prompt,
                                     std::uint32_t max_tokens) const;
  void submit(const wire::Submit& submit);
  void cancel(const wire::SequenceKey& key);

  void pass(Millis millis);
  // False: `limit` milliseconds went by without it.
  [[nodiscard]] bool run_until(const std::function<bool()>& condition, Millis limit = 20000);
  [[nodiscard]] bool start();        // until the first readiness
  [[nodiscard]] bool run_to_ends();  // until every request has its end

  // The ledger of the leader equals the recount in the scheduler.
  void expect_equal_ledger() const;

  VirtualTime time;
  FaultyTransport transport;
  RankCluster cluster;
  LeaderBook book;
  FakeKvMemory kv;
  FakeWakeUp wake_up;
  engine::ReplicaEngine engine;
  bool tick = true;  // the watcher runs
  Millis tick_period = 20;

 private:
  void hasten_tick();
  void on_reply(RankId rank, const wire::RankReply& reply) override;
  void on_death(RankId rank, const engine::RankDeath& death) override;
  void on_lifeline_free(RankId rank) override;
  void on_writable(RankId rank) override;

  std::uint32_t vocab_size_;
  std::uint32_t armed_ = 1;  // the next tick comes so many periods …
  Millis armed_at_ = 0;      // … after this
};

inline constexpr RankId kFirst(0);
inline constexpr RankId kSecond(1);

// What the leader knows of the request that has this number.
inline const LeaderBook::Entry& entry(const ReplicaWorld& world, std::uint64_t number) {
  return world.book.at(world.request(number, 1, 1).key);
}

}  // namespace phalanx::testing
