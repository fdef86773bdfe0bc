// SPDX-License-Identifier: Apache-2.0
#include "test_group.h"

#include <algorithm>
#include <bit>
#include <deque>

#include <gtest/gtest.h>

#include "phalanx/checkpoint/checkpoint.h"

namespace phalanx::model {
namespace {

constexpr std::size_t kSlotBytes = std::size_t{16} << 10;

collective::SegmentSpec segment_spec(std::uint32_t ranks) {
  collective::SegmentSpec spec;
  spec.epoch = Epoch(1);
  spec.world = ranks;
  spec.nonce = 0x5EED;
  spec.slot_bytes = kSlotBytes;
  return spec;
}

template <typename T>
T take(Result<T> result, const char* what) {
  if (!result) {
    ADD_FAILURE() << what << ": " << result.error().to_string();
    std::abort();
  }
  return *std::move(result);
}

}  // namespace

TestWeights::TestWeights(checkpoint::FileSource& files,
                         std::uint32_t threads,
                         const checkpoint::WeightFormats& formats,
                         std::uint32_t ranks) {
  const checkpoint::Checkpoint checkpoint = take(checkpoint::Checkpoint::open(files), "checkpoint");
  config_ = checkpoint.config();
  config_.formats = formats;
  memory_ = tensor::AlignedBuffer(layout_of(config_).bytes, kArenaAlignment);
  content_hash_ =
      take(fill_arena(checkpoint, config_, memory_.bytes(), {threads, ranks, {}}), "arena");
}

TestGroup::TestGroup(const TestWeights& weights, const GroupOptions& options)
    : weights_(weights),
      options_(options),
      segment_(collective::segment_bytes(options.ranks, kSlotBytes), 4096) {
  const auto spec = segment_spec(options.ranks);
  EXPECT_TRUE(collective::initialize_segment(segment_.bytes(), spec).has_value());
  const Shard first = take(plan_shard(weights.config(), 0, options.ranks), "shard");
  exchange_ = tensor::AlignedBuffer(
      take(rank_memory(weights.config(), first, options.limits), "memory").exchange);
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    ranks_.push_back(std::make_unique<Rank>());
  }
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    ranks_[rank]->thread = std::thread([this, rank] { serve(rank); });
  }
  run_on_threads([this](std::uint32_t rank) { build(rank); });
}

TestGroup::~TestGroup() {
  run_on_threads([this](std::uint32_t rank) {
    ranks_[rank]->model.reset();
    ranks_[rank]->team.reset();
  });
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (const auto& rank : ranks_) {
    rank->thread.join();
  }
}

void TestGroup::build(std::uint32_t index) {
  Rank& rank = *ranks_[index];
  kernels::TeamHooks hooks;
  hooks.context = &rank.stop;
  hooks.should_stop = [](void* context) {
    return static_cast<std::atomic<bool>*>(context)->load(std::memory_order_relaxed);
  };
  rank.team = take(kernels::ThreadTeam::create_unpinned(options_.threads, hooks), "team");
  rank.shard = take(plan_shard(weights_.config(), index, options_.ranks), "shard");
  const RankMemory memory =
      take(rank_memory(weights_.config(), rank.shard, options_.limits), "memory");
  rank.kv = tensor::AlignedBuffer(memory.kv);
  rank.scratch = tensor::AlignedBuffer(memory.scratch);
  rank.table_memory = tensor::AlignedBuffer(memory.sequence_table);
  rank.table = take(
      step::SequenceTable::map(rank.table_memory.bytes(), options_.limits, weights_.config().vocab),
      "table");
  collective::Communicator::Options waiting;
  waiting.spin = 200;
  rank.group = std::make_unique<collective::Communicator>(
      take(collective::Communicator::attach(
               segment_.bytes(), segment_spec(options_.ranks), RankId(index), waiting),
           "communicator"));
  RankModelOptions options;
  options.config = weights_.config();
  options.shard = rank.shard;
  options.limits = options_.limits;
  options.isa = options_.isa;
  options.allocation_counter = options_.allocation_counter;
  const RankRegions regions{
      weights_.memory(), rank.kv.bytes(), rank.scratch.bytes(), exchange_.bytes()};
  rank.model = take(RankModel::create(options, regions, *rank.table, *rank.team), "model");
  EXPECT_TRUE(rank.model->join(rank.group.get()).has_value());
}

void TestGroup::serve(std::uint32_t rank) {
  std::uint64_t seen = 0;
  for (;;) {
    const std::function<void(std::uint32_t)>* work = nullptr;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || round_ != seen; });
      if (ending_) {
        return;
      }
      seen = round_;
      work = work_;
    }
    (*work)(rank);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      --busy_;
    }
    changed_.notify_all();
  }
}

void TestGroup::run_on_threads(const std::function<void(std::uint32_t)>& work) {
  std::unique_lock<std::mutex> lock(mutex_);
  work_ = &work;
  busy_ = options_.ranks;
  ++round_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return busy_ == 0; });
}

void TestGroup::on_ranks(const std::function<void(std::uint32_t, RankModel&)>& work) {
  run_on_threads([&](std::uint32_t rank) { work(rank, *ranks_[rank]->model); });
}

Result<std::vector<SampledToken>> TestGroup::step(std::span<const StepItem> items) {
  std::vector<std::vector<SampledToken>> results(options_.ranks);
  std::vector<Status> statuses(options_.ranks);
  on_ranks([&](std::uint32_t rank, RankModel&) {
    auto result = step_on(rank, items);
    if (result) {
      results[rank] = *std::move(result);
    } else {
      statuses[rank] = std::move(result).error();
    }
  });
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    if (!statuses[rank]) {
      return statuses[rank].error();
    }
    EXPECT_EQ(results[rank], results[0]) << "rank " << rank;
  }
  return results[0];
}

Result<std::vector<step::StepItem>> TestGroup::begin(std::uint32_t rank,
                                                     std::span<const StepItem> items) {
  step::SequenceTable& table = *ranks_[rank]->table;
  std::vector<step::StepItem> result;
  for (const StepItem& item : items) {
    const bool known = table.contains(item.slot);
    const std::uint32_t end = item.start + item.count;
    const std::size_t held = known ? table.blocks(item.slot).size() : 0;
    const std::size_t needed =
        std::clamp<std::size_t>(step::blocks_for(end), held, std::max(held, item.blocks.size()));
    result.push_back({item.slot,
                      item.sequence,
                      item.start,
                      item.count,
                      item.sample,
                      static_cast<std::uint32_t>(held),
                      {}});
    const auto added = item.blocks.first(needed).subspan(held);
    result.back().blocks.assign(added.begin(), added.end());
    if (!known || !item.sample || end >= table.row(item.slot).length) {
      PHALANX_RETURN_IF_ERROR(table.check(result.back()));
    }
  }
  for (const step::StepItem& item : result) {
    table.extend(item);
  }
  return result;
}

void TestGroup::settle(std::uint32_t rank,
                       std::span<const step::StepItem> items,
                       std::span<const SampledToken> results) {
  step::SequenceTable& table = *ranks_[rank]->table;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const step::StepItem& item = items[i];
    const bool is_next = item.start + item.count == table.row(item.slot).length;
    if (item.sample && is_next && results[i].token >= 0) {
      table.append(item.slot, results[i].token);
    }
  }
}

Result<std::vector<SampledToken>> TestGroup::step_on(std::uint32_t rank,
                                                     std::span<const StepItem> items) {
  PHALANX_TRY(const std::vector<step::StepItem> given, begin(rank, items));
  PHALANX_TRY(const std::span<const SampledToken> results, ranks_[rank]->model->step(given));
  settle(rank, given, results);
  return std::vector<SampledToken>(results.begin(), results.end());
}

void TestGroup::attach(std::span<const SequenceSpec> sequences) {
  for (const auto& rank : ranks_) {
    rank->table->clear();
  }
  update({}, sequences);
}

void TestGroup::update(std::span<const std::uint32_t> slots,
                       std::span<const SequenceSpec> sequences) {
  for (const auto& rank : ranks_) {
    for (const std::uint32_t slot : slots) {
      EXPECT_TRUE(rank->table->detach(slot));
    }
    for (const SequenceSpec& spec : sequences) {
      step::SequenceAttach attach;
      attach.slot = spec.slot;
      attach.sequence = spec.sequence;
      attach.tokens.assign(spec.tokens.begin(), spec.tokens.end());
      attach.prompt_tokens = spec.prompt_tokens;
      attach.choice = spec.choice;
      static_cast<step::SamplingNumbers&>(attach.sampling) = spec.sampling;
      attach.sampling.logit_bias.assign(spec.logit_bias.begin(), spec.logit_bias.end());
      attach.masked_until_min_tokens.assign(spec.masked_until_min_tokens.begin(),
                                            spec.masked_until_min_tokens.end());
      const Status status = rank->table->attach(attach);
      EXPECT_TRUE(status.has_value()) << status.error().to_string();
    }
  }
}

void TestGroup::keep_logits() {
  for (const auto& rank : ranks_) {
    rank->logits.resize(std::size_t{options_.limits.max_num_seqs} * rank->shard.tokens.count);
    rank->model->keep_raw_logits(rank->logits);
  }
}

std::vector<std::vector<float>> TestGroup::logits(std::uint32_t sample_rows) const {
  std::vector<std::vector<float>> rows(sample_rows);
  for (std::uint32_t row = 0; row < sample_rows; ++row) {
    for (const auto& rank : ranks_) {
      const std::size_t count = rank->shard.tokens.count;
      const auto first = rank->logits.begin() + static_cast<std::ptrdiff_t>(row * count);
      rows[row].insert(rows[row].end(), first, first + static_cast<std::ptrdiff_t>(count));
    }
  }
  return rows;
}

namespace {

struct Running {
  std::size_t request = 0;
  std::uint32_t slot = 0;
  std::uint32_t computed = 0;
  std::uint32_t known = 0;
  std::vector<std::uint32_t> blocks;
};

class Batch {
 public:
  Batch(TestGroup& group, const std::vector<TestRequest>& requests, const GenerateOptions& options)
      : group_(group), requests_(requests), options_(options), streams_(requests.size()) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      waiting_.push_back(options.reverse ? requests.size() - 1 - i : i);
    }
    for (std::uint32_t slot = 0; slot < options.concurrency; ++slot) {
      free_.push_back(slot);
    }
  }

  std::vector<std::vector<SampledToken>> run() {
    group_.attach({});
    while (!waiting_.empty() || !running_.empty()) {
      while (!waiting_.empty() && !free_.empty()) {
        admit();
      }
      if (!step()) {
        break;
      }
    }
    return streams_;
  }

 private:
  void admit() {
    Running running;
    running.request = waiting_.front();
    waiting_.pop_front();
    running.slot = free_.back();
    free_.pop_back();
    const TestRequest& request = requests_[running.request];
    running.known = static_cast<std::uint32_t>(request.prompt.size());
    // Blocks of a sequence are apart and in falling order, so that nothing can rely on neighbours.
    const std::uint32_t blocks = group_.options().limits.kv_blocks;
    for (std::uint32_t i = running.slot; i < blocks; i += options_.concurrency) {
      running.blocks.push_back(blocks - 1 - i);
    }
    const SequenceSpec spec{running.slot,
                            1000 + running.request,
                            request.prompt,
                            running.known,
                            request.choice,
                            request.sampling,
                            request.logit_bias,
                            request.masked};
    group_.update({}, {&spec, 1});
    running_.push_back(std::move(running));
  }

  bool step() {
    std::vector<StepItem> items;
    std::uint32_t budget = group_.options().limits.max_num_batched_tokens;
    std::vector<Running*> stepped;
    for (Running& running : running_) {
      const std::uint32_t count =
          std::min({options_.chunk, running.known - running.computed, budget});
      if (count != 0) {
        const bool sample = running.computed + count == running.known;
        items.push_back({running.slot,
                         1000 + running.request,
                         running.computed,
                         count,
                         sample,
                         running.blocks});
        stepped.push_back(&running);
        budget -= count;
      }
    }
    auto results = group_.step(items);
    if (!results) {
      ADD_FAILURE() << results.error().to_string();
      return false;
    }
    for (std::size_t i = 0; i < stepped.size(); ++i) {
      stepped[i]->computed += items[i].count;
      if (items[i].sample) {
        streams_[stepped[i]->request].push_back((*results)[i]);
        ++stepped[i]->known;
      }
    }
    retire();
    return true;
  }

  void retire() {
    for (auto running = running_.begin(); running != running_.end();) {
      if (streams_[running->request].size() == requests_[running->request].produce) {
        group_.update({&running->slot, 1}, {});
        free_.push_back(running->slot);
        running = running_.erase(running);
      } else {
        ++running;
      }
    }
  }

  TestGroup& group_;
  const std::vector<TestRequest>& requests_;
  const GenerateOptions& options_;
  std::vector<std::vector<SampledToken>> streams_;
  std::deque<std::size_t> waiting_;
  std::vector<std::uint32_t> free_;
  std::deque<Running> running_;
};

}  // namespace

std::vector<std::vector<SampledToken>> generate(TestGroup& group,
                                                const std::vector<TestRequest>& requests,
                                                const GenerateOptions& options) {
  return Batch(group, requests, options).run();
}

std::string text_of(const std::vector<SampledToken>& stream) {
  std::string text;
  for (const SampledToken& token : stream) {
    text += std::to_string(token.token) + "/" +
            std::to_string(std::bit_cast<std::uint32_t>(token.logprob)) + " ";
  }
  return text;
}

}  // namespace phalanx::model
