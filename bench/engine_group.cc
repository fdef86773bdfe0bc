// SPDX-License-Identifier: Apache-2.0
#include "engine_group.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "phalanx/collective/communicator.h"
#include "phalanx/kernels/float_mode.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/model/rank_model.h"
#include "phalanx/step/sequence_table.h"

namespace phalanx::bench {

struct Crew::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Work> work;
  std::optional<Status> outcome;
  bool ending = false;
  std::thread thread;

  void serve(const os::CpuList& cpus) {
    kernels::set_float_mode();
    const auto team = kernels::ThreadTeam::create(std::vector<int>(cpus.begin(), cpus.end()));
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ending || work.has_value(); });
      if (ending) {
        return;
      }
      const Work todo = *std::exchange(work, std::nullopt);
      lock.unlock();
      Status status = team ? todo(**team) : Status(team.error());
      lock.lock();
      outcome = std::move(status);
      changed.notify_all();
    }
  }
};

Crew::Crew(os::CpuList cpus) : state_(std::make_unique<State>()) {
  state_->thread =
      std::thread([state = state_.get(), mine = std::move(cpus)] { state->serve(mine); });
}

Crew::~Crew() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

void Crew::begin(Work work) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->work = std::move(work);
  state_->changed.notify_all();
}

Status Crew::finish() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->outcome.has_value(); });
  return *std::exchange(state_->outcome, std::nullopt);
}

// Its parts in the order in which they need each other; all of them are made, used and destroyed on
// the thread of the crew, but for the memory.
struct Group::Rank {
  explicit Rank(const os::CpuList& cpus) : crew(cpus) {}

  model::Shard shard;
  std::span<std::byte> kv;
  std::span<std::byte> exchange;  // of the group
  os::Mapping scratch;
  os::Mapping table_memory;
  std::optional<step::SequenceTable> table;
  std::optional<collective::Communicator> group;
  std::vector<std::unique_ptr<model::RankModel>> models;  // by arena
  double seconds = 0.0;
  Crew crew;  // last, so that its thread ends first

  Status build(const GroupOptions& options,
               std::span<const Arena> arenas,
               kernels::ThreadTeam& team);
  Status run(std::size_t arena, const Job& job);
  Status step(model::RankModel& model, std::span<const step::StepItem> items);
};

Status Group::Rank::build(const GroupOptions& options,
                          std::span<const Arena> arenas,
                          kernels::ThreadTeam& team) {
  std::size_t scratch_bytes = 0;
  std::size_t table_bytes = 0;
  for (const Arena& arena : arenas) {
    PHALANX_TRY(const model::RankMemory memory,
                model::rank_memory(arena.config, shard, options.limits));
    scratch_bytes = std::max(scratch_bytes, memory.scratch);
    table_bytes = std::max(table_bytes, memory.sequence_table);
  }
  PHALANX_TRY(scratch, take_memory("scratch", scratch_bytes));
  PHALANX_TRY(table_memory, take_memory("sequence table", table_bytes));
  std::memset(scratch.data(), 0, scratch.size());  // mapped now and not in the first step
  PHALANX_TRY(
      table,
      step::SequenceTable::map(table_memory.bytes(), options.limits, arenas[0].config.vocab));
  for (const Arena& arena : arenas) {
    model::RankModelOptions of_model;
    of_model.config = arena.config;
    of_model.shard = shard;
    of_model.limits = options.limits;
    of_model.isa = options.isa;
    const model::RankRegions regions{arena.memory.bytes(), kv, scratch.bytes(), exchange};
    PHALANX_TRY(auto made, model::RankModel::create(of_model, regions, *table, team));
    PHALANX_RETURN_IF_ERROR(made->join(&*group));
    models.push_back(std::move(made));
  }
  return ok();
}

// As the rank loop of a server does it.
Status Group::Rank::step(model::RankModel& model, std::span<const step::StepItem> items) {
  for (const step::StepItem& item : items) {
    PHALANX_RETURN_IF_ERROR(table->check(item));
    table->extend(item);
  }
  PHALANX_TRY(const std::span<const model::SampledToken> sampled, model.step(items));
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].sample) {
      continue;
    }
    if (sampled[i].token < 0) {
      return data_loss("a row without a token: the logits are not finite");
    }
    table->append(items[i].slot, sampled[i].token);
  }
  return ok();
}

Status Group::Rank::run(std::size_t arena, const Job& job) {
  table->clear();
  for (const step::SequenceAttach& sequence : job.sequences) {
    PHALANX_RETURN_IF_ERROR(table->attach(sequence));
  }
  std::chrono::steady_clock::time_point begun;
  for (std::size_t i = 0; i < job.steps.size(); ++i) {
    if (i == job.warm_up) {
      PHALANX_RETURN_IF_ERROR(group->barrier());
      begun = std::chrono::steady_clock::now();
    }
    PHALANX_RETURN_IF_ERROR(step(*models[arena], job.steps[i]));
  }
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return ok();
}

Result<std::size_t> group_kv_bytes(const checkpoint::ModelConfig& config,
                                   std::uint32_t ranks,
                                   const step::RankLimits& limits) {
  std::size_t bytes = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    PHALANX_TRY(const model::Shard shard, model::plan_shard(config, rank, ranks));
    PHALANX_TRY(const model::RankMemory memory, model::rank_memory(config, shard, limits));
    bytes += memory.kv;
  }
  return bytes;
}

namespace {

// The largest that any of the models asks for; mappings are not empty.
Result<std::size_t> exchange_bytes_of(std::span<const Arena> arenas,
                                      std::uint32_t ranks,
                                      const step::RankLimits& limits) {
  std::size_t bytes = 1;
  for (const Arena& arena : arenas) {
    PHALANX_TRY(const model::Shard first, model::plan_shard(arena.config, 0, ranks));
    PHALANX_TRY(const model::RankMemory memory, model::rank_memory(arena.config, first, limits));
    bytes = std::max(bytes, memory.exchange);
  }
  return bytes;
}

}  // namespace

Group::Group() = default;

Group::~Group() {
  // What cannot be told to anybody any more.
  static_cast<void>(on_ranks([](Rank& rank, kernels::ThreadTeam& /*team*/) {
    rank.models.clear();
    return ok();
  }));
}

Result<std::unique_ptr<Group>> Group::create(const GroupOptions& options,
                                             std::span<const Arena> arenas,
                                             std::span<std::byte> kv) {
  std::unique_ptr<Group> made(new Group());
  collective::SegmentSpec spec;
  spec.epoch = Epoch(1);
  spec.world = static_cast<std::uint32_t>(options.cpus.size());
  PHALANX_TRY(made->segment_,
              take_memory("segment", collective::segment_bytes(spec.world, spec.slot_bytes)));
  PHALANX_RETURN_IF_ERROR(collective::initialize_segment(made->segment_.bytes(), spec));
  PHALANX_TRY(const std::size_t exchange_bytes,
              exchange_bytes_of(arenas, spec.world, options.limits));
  PHALANX_TRY(made->exchange_, take_memory("exchange", exchange_bytes));
  for (std::uint32_t index = 0; index < spec.world; ++index) {
    auto rank = std::make_unique<Rank>(options.cpus[index]);
    PHALANX_TRY(rank->shard, model::plan_shard(arenas[0].config, index, spec.world));
    PHALANX_TRY(const model::RankMemory memory,
                model::rank_memory(arenas[0].config, rank->shard, options.limits));
    rank->exchange = made->exchange_.bytes();
    rank->kv = kv.first(memory.kv);
    kv = kv.subspan(memory.kv);
    PHALANX_TRY(rank->group,
                collective::Communicator::attach(made->segment_.bytes(), spec, RankId(index), {}));
    made->ranks_.push_back(std::move(rank));
  }
  PHALANX_RETURN_IF_ERROR(made->on_ranks(
      [&](Rank& rank, kernels::ThreadTeam& team) { return rank.build(options, arenas, team); }));
  return made;
}

// A rank that fails frees the others; its error is the one to tell.
Status Group::on_ranks(const std::function<Status(Rank&, kernels::ThreadTeam&)>& work) {
  for (const auto& rank : ranks_) {
    rank->crew.begin([&work, own = rank.get()](kernels::ThreadTeam& team) {
      Status status = work(*own, team);
      if (!status) {
        own->group->abort();
      }
      return status;
    });
  }
  Status first = ok();
  for (const auto& rank : ranks_) {
    Status status = rank->crew.finish();
    if (!status && (first || first.error().code() == Code::kAborted)) {
      first = std::move(status);
    }
  }
  return first;
}

Result<double> Group::run(std::size_t arena, const Job& job) {
  PHALANX_RETURN_IF_ERROR(
      on_ranks([&](Rank& rank, kernels::ThreadTeam& /*team*/) { return rank.run(arena, job); }));
  return ranks_[0]->seconds;
}

}  // namespace phalanx::bench
