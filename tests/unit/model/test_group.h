// SPDX-License-Identifier: Apache-2.0
// A tensor-parallel group inside one test process: each rank is a thread with its own memory,
// joined by a communicator over shared memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "phalanx/collective/communicator.h"
#include "phalanx/kernels/thread_team.h"
#include "phalanx/model/rank_model.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"
#include "phalanx/tensor/arena.h"

namespace phalanx::model {

// Weights packed once, for any number of ranks.
class TestWeights {
 public:
  explicit TestWeights(checkpoint::FileSource& files,
                       std::uint32_t threads = 2,
                       const checkpoint::WeightFormats& formats = {},
                       std::uint32_t ranks = 1);

  [[nodiscard]] const checkpoint::ModelConfig& config() const { return config_; }
  [[nodiscard]] std::span<std::byte> memory() const { return memory_.bytes(); }
  [[nodiscard]] std::uint64_t content_hash() const { return content_hash_; }

 private:
  checkpoint::ModelConfig config_;
  tensor::AlignedBuffer memory_;
  std::uint64_t content_hash_ = 0;
};

// A sequence, and a row range of a step with the whole block table, as these tests name them.
struct SequenceSpec {
  std::uint32_t slot = 0;
  std::uint64_t sequence = 0;
  std::span<const TokenId> tokens;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t choice = 0;
  step::SamplingNumbers sampling;
  std::span<const std::pair<TokenId, float>> logit_bias;
  std::span<const TokenId> masked_until_min_tokens;
};
struct StepItem {
  std::uint32_t slot = 0;
  std::uint64_t sequence = 0;
  std::uint32_t start = 0;
  std::uint32_t count = 0;
  bool sample = false;  // also within what is known already, to see logits there
  std::span<const std::uint32_t> blocks;
};

struct GroupOptions {
  std::uint32_t ranks = 1;
  std::uint32_t threads = 1;  // of each rank
  kernels::Isa isa = kernels::Isa::kRef;
  step::RankLimits limits{256, 8, 64, 128};
  std::uint64_t (*allocation_counter)() = nullptr;
};

class TestGroup {
 public:
  TestGroup(const TestWeights& weights, const GroupOptions& options);
  TestGroup(const TestGroup&) = delete;
  TestGroup& operator=(const TestGroup&) = delete;
  ~TestGroup();

  // Runs `work(rank, model)` on the thread of every rank and returns when all are done.
  void on_ranks(const std::function<void(std::uint32_t, RankModel&)>& work);

  // The step on every rank, and what it sampled appended to the tables; fails the test unless all
  // agree on the results.
  Result<std::vector<SampledToken>> step(std::span<const StepItem> items);

  // Its parts, for the thread of one rank: gives the table its new blocks, runs, appends.
  Result<std::vector<step::StepItem>> begin(std::uint32_t rank, std::span<const StepItem> items);
  Result<std::vector<SampledToken>> step_on(std::uint32_t rank, std::span<const StepItem> items);
  void settle(std::uint32_t rank,
              std::span<const step::StepItem> items,
              std::span<const SampledToken> results);

  void attach(std::span<const SequenceSpec> sequences);
  void update(std::span<const std::uint32_t> slots, std::span<const SequenceSpec> sequences);

  // Raw logits of the sampled rows of the latest step, all shards: [sample row][vocab]. Must have
  // been asked for with keep_logits() before the step.
  void keep_logits();
  [[nodiscard]] std::vector<std::vector<float>> logits(std::uint32_t sample_rows) const;

  [[nodiscard]] RankModel& model(std::uint32_t rank) { return *ranks_[rank]->model; }
  [[nodiscard]] std::span<std::byte> kv(std::uint32_t rank) { return ranks_[rank]->kv.bytes(); }
  [[nodiscard]] const GroupOptions& options() const { return options_; }
  [[nodiscard]] collective::Communicator& communicator(std::uint32_t rank) {
    return *ranks_[rank]->group;
  }
  [[nodiscard]] std::atomic<bool>& stop(std::uint32_t rank) { return ranks_[rank]->stop; }

 private:
  struct Rank {
    std::thread thread;
    std::unique_ptr<kernels::ThreadTeam> team;
    std::unique_ptr<collective::Communicator> group;
    std::unique_ptr<RankModel> model;
    tensor::AlignedBuffer kv;
    tensor::AlignedBuffer scratch;
    tensor::AlignedBuffer table_memory;
    std::optional<step::SequenceTable> table;
    std::vector<float> logits;
    Shard shard;
    std::atomic<bool> stop{false};
  };

  void serve(std::uint32_t rank);
  void build(std::uint32_t rank);

  const TestWeights& weights_;
  GroupOptions options_;
  tensor::AlignedBuffer segment_;
  tensor::AlignedBuffer exchange_;
  std::vector<std::unique_ptr<Rank>> ranks_;

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(std::uint32_t)>* work_ = nullptr;
  std::uint64_t round_ = 0;
  std::uint32_t busy_ = 0;
  bool ending_ = false;
  void run_on_threads(const std::function<void(std::uint32_t)>& work);
};

struct TestRequest {
  std::vector<TokenId> prompt;
  std::uint32_t produce = 8;
  step::SamplingNumbers sampling;
  std::uint32_t choice = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> masked;
};

struct GenerateOptions {
  std::uint32_t chunk = 64;       // tokens of a prompt per step
  std::uint32_t concurrency = 4;  // sequences at once
  bool reverse = false;           // order of admission
};

// Runs the requests to their ends with continuous batching; the stream of request i at [i].
[[nodiscard]] std::vector<std::vector<SampledToken>> generate(
    TestGroup& group, const std::vector<TestRequest>& requests, const GenerateOptions& options);

// Tokens and the bits of their log probabilities, for messages.
[[nodiscard]] std::string text_of(const std::vector<SampledToken>& stream);

}  // namespace phalanx::model
