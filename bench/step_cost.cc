// SPDX-License-Identifier: Apache-2.0
// What a step costs besides the computing: bytes of its frame, and processor time of the replica
// and of a rank around it, with the same batch at two lengths of context. The whole replica engine
// and real command loops, over links that are queues of this process and ranks that compute
// nothing. One line of JSON.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/engine/rank_loop.h"
#include "phalanx/engine/replica_engine.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/step/sequence_table.h"
#include "phalanx/wire/codec.h"

#include "machine.h"
#include "usage.h"

namespace phalanx::bench {
namespace {

constexpr char kUsage[] =
    "usage: step_cost [SEQUENCES [RANKS]]\n"
    "1 to 64 sequences (16), 1 to 64 ranks (2)";

constexpr std::uint32_t kVocab = 32000;
constexpr std::uint32_t kSteps = 200;  // measured, after as many that are not
constexpr std::uint32_t kContexts[] = {128, 8192};
constexpr std::uint64_t kSecret = 1;

std::uint64_t thread_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

class IdleRunner final : public engine::ModelRunner {
 public:
  Result<engine::RunnerIdentity> identity() override { return engine::RunnerIdentity{1, 1}; }
  Status init(Epoch /*epoch*/) override { return ok(); }
  Status sanity() override { return ok(); }
  Status step(const step::SequenceTable& /*table*/,
              std::span<const step::StepItem> /*items*/,
              std::span<step::SampleResult> results) override {
    for (step::SampleResult& result : results) {
      result.token = 7;
    }
    return ok();
  }
  Status clear(bool /*zero_kv*/) override { return ok(); }
  engine::RunnerCounters counters() const override { return {}; }
};

struct Rank {
  Rank(std::uint32_t index, const step::RankLimits& limits)
      : words(step::SequenceTable::bytes_for(limits) / sizeof(std::uint64_t) + 1),
        table(step::SequenceTable::map(std::as_writable_bytes(std::span(words)), limits, kVocab)
                  .value()),
        rows(step::result_ring_rows(limits.max_num_seqs)),
        ring(rows, limits.max_num_seqs),
        loop({RankId(index), 1, kSecret}, table, runner, ring) {}
  std::vector<std::uint64_t> words;
  step::SequenceTable table;
  std::vector<step::SampleResult> rows;
  engine::ResultRing ring;
  IdleRunner runner;
  engine::RankLoop loop;
};

class Memory final : public engine::KvMemory {
 public:
  Backed back(std::uint32_t blocks) override { return {blocks, false}; }
  void forget() override {}
};

class NoWakeUp final : public engine::WakeUp {
 public:
  void wake_after(Duration /*delay*/) override {}
};

class Sink final : public engine::ReplicaSink {
 public:
  void send(wire::ReplicaMessage /*message*/) override {}
  [[nodiscard]] bool takes() const override { return true; }
  void on_stopped(const Status& /*status*/) override {}
};

struct Cost {
  std::size_t frame_bytes = 0;
  std::vector<std::uint64_t> replica_ns;
  std::vector<std::uint64_t> rank_ns;
};

class World final : public engine::GroupPort {
 public:
  World(std::uint32_t ranks, std::uint32_t sequences, std::uint32_t context) {
    const std::uint32_t length = context + 4 * kSteps;
    const step::RankLimits limits{
        length, sequences, sequences * context, sequences * step::blocks_for(length)};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(rank, limits));
    }
    engine::ReplicaOptions options;
    options.scheduler.limits = limits;
    options.scheduler.vocab_size = kVocab;
    options.group.ranks = ranks;
    options.group.secret = kSecret;
    PHALANX_CHECK(engine::validate(options.scheduler), "limits");
    engine_ = std::make_unique<engine::ReplicaEngine>(
        options, *this, ranks_[0]->ring, memory_, sink_, wake_up_, steady_clock());
    engine_->start();
    while (!frames_.empty()) {
      turn();
    }
    for (std::uint32_t i = 0; i < sequences; ++i) {
      wire::Submit submit;
      submit.key = {RequestId(i + 1), ChoiceIndex(0), Attempt(1)};
      submit.prompt_ids.assign(context, static_cast<TokenId>(i));
      submit.stop.max_tokens = 4 * kSteps;
      engine_->submit(submit);
    }
  }

  Cost run() {
    for (std::uint32_t i = 0; i < kSteps; ++i) {
      turn();
    }
    cost_ = Cost{};
    for (std::uint32_t i = 0; i < kSteps; ++i) {
      turn();
    }
    return std::move(cost_);
  }

 private:
  // One operation: every rank answers, and the engine sends another. The next one may be here
  // already.
  void turn() {
    std::uint64_t replica = 0;
    for (std::size_t i = 0; i < ranks_.size() && !frames_.empty(); ++i) {
      const auto [rank, frame] = std::move(frames_.front());
      frames_.pop_front();
      cost_.frame_bytes = frame.size();
      const std::uint64_t begun = thread_ns();
      const auto command = wire::decode_rank_command(frame);
      PHALANX_CHECK(command, "command");
      const std::string reply = wire::encode(ranks_[rank.value()]->loop.handle(*command));
      const std::uint64_t answered = thread_ns();
      const auto decoded = wire::decode_rank_reply(reply);
      PHALANX_CHECK(decoded && decoded->code == 0, "reply");
      engine_->on_reply(rank, *decoded);
      replica += thread_ns() - answered;
      cost_.rank_ns.push_back(answered - begun);
    }
    cost_.replica_ns.push_back(replica);
  }

  wire::Sent send(RankId rank, std::string_view frame) override {
    frames_.emplace_back(rank, frame);
    return wire::Sent::kQueued;
  }
  void raise_abort() override {}
  void kill(RankId /*rank*/) override {}
  Status respawn(RankId /*rank*/, Incarnation /*incarnation*/) override { return ok(); }
  Status new_segment(Epoch /*epoch*/) override { return ok(); }
  std::uint64_t progress(RankId /*rank*/) override { return 0; }

  Memory memory_;
  Sink sink_;
  NoWakeUp wake_up_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::unique_ptr<engine::ReplicaEngine> engine_;
  std::deque<std::pair<RankId, std::string>> frames_;
  Cost cost_;
};

int run(std::uint32_t sequences, std::uint32_t ranks) {
  const std::string machine = machine_json();
  std::string parts;
  for (const std::uint32_t context : kContexts) {
    Cost cost = World(ranks, sequences, context).run();
    parts += (parts.empty() ? "" : ",") + std::string("{\"context\":") + std::to_string(context) +
             ",\"frame_bytes\":" + std::to_string(cost.frame_bytes) + ",\"replica_cpu\":{" +
             percentiles_json(cost.replica_ns) + "},\"rank_cpu\":{" +
             percentiles_json(cost.rank_ns) + "}}";
  }
  std::printf("{\"bench\":\"step_cost\",\"sequences\":%u,\"ranks\":%u,\"steps\":[%s],%s}\n",
              sequences,
              ranks,
              parts.c_str(),
              machine.c_str());
  return 0;
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  if (phalanx::bench::asks_for_help(argc, argv)) {
    std::puts(phalanx::bench::kUsage);
    return 0;
  }
  const auto sequences = phalanx::bench::number_at(argc, argv, 1, 16, 1, 64);
  const auto ranks = phalanx::bench::number_at(argc, argv, 2, 2, 1, 64);
  if (argc > 3 || !sequences || !ranks) {
    std::fprintf(stderr, "%s\n", phalanx::bench::kUsage);
    return 64;
  }
  return phalanx::bench::run(static_cast<std::uint32_t>(*sequences),
                             static_cast<std::uint32_t>(*ranks));
}
