// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/rank_model.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "phalanx/base/clock.h"
#include "phalanx/base/hash.h"
#include "phalanx/kernels/arithmetic_version.h"
#include "phalanx/step/limits.h"
#include "phalanx/tensor/arena.h"

#include "forward_program.h"
#include "step_inputs.h"

namespace phalanx::model {
namespace {

// The golden vectors take up to a second on `ref`; a process computes them once per table.
std::uint64_t cached_arithmetic_version(const kernels::KernelTable& table) {
  static std::array<std::atomic<std::uint64_t>, kernels::kIsas.size()> cache{};
  std::atomic<std::uint64_t>& entry = cache[static_cast<std::size_t>(table.isa)];
  std::uint64_t version = entry.load(std::memory_order_relaxed);
  if (version == 0) {
    version = kernels::arithmetic_version(table);
    entry.store(version, std::memory_order_relaxed);
  }
  return version;
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock().now().time_since_epoch())
          .count());
}

std::span<std::byte> writable(std::span<const std::byte> memory) {
  // Links are pointers to mutable memory; the program tags weights as `in` and never writes them.
  return {const_cast<std::byte*>(memory.data()), memory.size()};
}

}  // namespace

struct RankModel::Impl {
  Impl(const RankModelOptions& given,
       const RankRegions& memory,
       const step::SequenceTable& sequences,
       kernels::ThreadTeam& threads)
      : options(given),
        regions(memory),
        table(sequences),
        team(threads),
        kernels(kernels::kernel_table(given.isa)),
        inputs(given.limits,
               given.shard.attention.count,
               given.config.heads_per_group(),
               {threads.size(), attention_records(given.config, given.shard, given.limits)}) {}

  RankModelOptions options;
  RankRegions regions;
  const step::SequenceTable& table;
  kernels::ThreadTeam& team;
  const kernels::KernelTable& kernels;
  WeightArena arena;
  KvLayout kv;
  StepInputs inputs;
  std::unique_ptr<Sampler> sampler;
  kernels::RopeFrequencies frequencies;
  std::unique_ptr<collective::TreePlan> attention_tree;
  std::unique_ptr<collective::TreePlan> mlp_tree;
  std::atomic<std::uint64_t> non_finite{0};
  tensor::AlignedBuffer results;
  tensor::AlignedBuffer thread_memory;
  std::vector<kernels::ReadAhead> ahead;  // by thread
  std::unique_ptr<ForwardProgram> forward;
  collective::Communicator* group = nullptr;
  RankCounters counters;
  std::uint64_t fingerprint = 0;

  Status prepare();
  Status make_plans();
  Status record();
  Status bind();
  Status run(std::span<const step::StepItem> items);
  [[nodiscard]] Status check_keys_and_values() const;
  [[nodiscard]] SampledToken* rows() const {
    return reinterpret_cast<SampledToken*>(results.bytes().data());
  }
};

Status RankModel::Impl::make_plans() {
  const Units units = units_of(options.config);
  const std::uint32_t ranks = options.shard.ranks;
  PHALANX_TRY(auto attention, collective::TreePlan::make(units.attention, ranks));
  PHALANX_TRY(auto mlp, collective::TreePlan::make(units.mlp, ranks));
  attention_tree = std::make_unique<collective::TreePlan>(std::move(attention));
  mlp_tree = std::make_unique<collective::TreePlan>(std::move(mlp));
  PHALANX_TRY(frequencies, kernels::make_rope_frequencies(options.config.rope));
  return ok();
}

Status RankModel::Impl::record() {
  ForwardInputs memory;
  memory.tokens = inputs.tokens();
  memory.positions = inputs.positions();
  memory.kv_slots = inputs.kv_slots();
  memory.sequences = inputs.sequences();
  memory.sample_rows = inputs.sample_rows();
  memory.sample_positions = inputs.sample_positions();
  memory.sampled = inputs.sampled();
  memory.frequencies = &frequencies;
  memory.non_finite = &non_finite;
  memory.attention_tree = attention_tree.get();
  memory.mlp_tree = mlp_tree.get();
  memory.sampler = sampler.get();
  const ForwardShape shape{
      options.config, options.shard, options.limits, arena.layout, kv, team.size()};
  PHALANX_TRY(ForwardProgram recorded, record_forward(shape, memory));
  thread_memory = tensor::AlignedBuffer(team.size() * recorded.thread_floats * sizeof(float));
  ahead.resize(team.size());
  forward = std::make_unique<ForwardProgram>(std::move(recorded));
  return ok();
}

Status RankModel::Impl::bind() {
  Program& program = forward->program;
  const ForwardBuffers& buffers = forward->buffers;
  PHALANX_RETURN_IF_ERROR(program.bind_scratch(regions.scratch));
  PHALANX_RETURN_IF_ERROR(program.bind(buffers.weights, writable(regions.weights)));
  PHALANX_RETURN_IF_ERROR(program.bind(buffers.kv, regions.kv));
  if (buffers.exchange) {
    PHALANX_RETURN_IF_ERROR(program.bind(*buffers.exchange, regions.exchange));
  }
  PHALANX_RETURN_IF_ERROR(program.bind(buffers.sequence_table, writable(table.memory())));
  return program.bind(buffers.results, results.bytes());
}

Status RankModel::Impl::prepare() {
  const checkpoint::ModelConfig& config = options.config;
  const step::RankLimits& limits = options.limits;
  PHALANX_RETURN_IF_ERROR(check_limits(config, limits));
  const std::uint64_t version = cached_arithmetic_version(kernels);
  if (version != kernels::kArithmeticVersion) {
    return failed_precondition(
        "arithmetic version: expected " + std::to_string(kernels::kArithmeticVersion) + ", found " +
        std::to_string(version) + " with " + std::string(kernels::isa_name(options.isa)) +
        ": this build computes other numbers and must not serve");
  }
  PHALANX_TRY(arena, open_arena(regions.weights, config));
  fingerprint = Fingerprint()
                    .add(version)
                    .add(arena.key)
                    .add(arena.content_hash)
                    .add(static_cast<std::uint64_t>(limits.kv_format))
                    .value();
  kv = kv_layout(config, options.shard, limits);
  Sampler::Options sampling;
  sampling.tokens = options.shard.tokens;
  sampling.rank = options.shard.rank;
  sampling.ranks = options.shard.ranks;
  sampling.rows_max = limits.max_num_seqs;
  sampling.threads = team.size();
  sampling.logits_stride = logits_stride(options.shard);
  sampler = std::make_unique<Sampler>(sampling, table);
  results = tensor::AlignedBuffer(limits.max_num_seqs * sizeof(SampledToken));
  PHALANX_RETURN_IF_ERROR(make_plans());
  PHALANX_RETURN_IF_ERROR(record());
  return bind();
}

Status RankModel::Impl::check_keys_and_values() const {
  const std::uint64_t count = non_finite.load(std::memory_order_relaxed);
  if (count != 0) {
    return data_loss("expected finite keys and values, found " + std::to_string(count) +
                     " that are not: the model's weights may be damaged");
  }
  return ok();
}

Status RankModel::Impl::run(std::span<const step::StepItem> items) {
  if (group == nullptr) {
    return failed_precondition("step: expected a communicator, found none: join() comes first");
  }
  inputs.fill(items, table);
  sampler->begin(inputs.samples());
  non_finite.store(0, std::memory_order_relaxed);
  std::fill_n(rows(), items.size(), SampledToken());
  StepShape shape = inputs.shape();
  shape.top_k_rows = sampler->selecting(Selection::kTopK);
  shape.top_p_rows = sampler->selecting(Selection::kTopP);
  shape.drawn_rows = sampler->drawn();
  const TaskRuntime runtime{
      &kernels, group, thread_memory.as<float>().data(), forward->thread_floats, ahead.data()};
  PHALANX_RETURN_IF_ERROR(forward->program.run(shape, team, runtime, options.observer));
  return check_keys_and_values();
}

RankModel::RankModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RankModel::~RankModel() = default;

Result<std::unique_ptr<RankModel>> RankModel::create(const RankModelOptions& options,
                                                     const RankRegions& regions,
                                                     const step::SequenceTable& table,
                                                     kernels::ThreadTeam& team) {
  const std::vector<kernels::Isa> available = kernels::available_isas();
  if (std::find(available.begin(), available.end(), options.isa) == available.end()) {
    return failed_precondition("instruction set " + std::string(kernels::isa_name(options.isa)) +
                               ": expected to be available, found it absent");
  }
  auto impl = std::make_unique<Impl>(options, regions, table, team);
  PHALANX_RETURN_IF_ERROR(impl->prepare());
  return std::unique_ptr<RankModel>(new RankModel(std::move(impl)));
}

Status RankModel::join(collective::Communicator* group) {
  const Shard& shard = impl_->options.shard;
  if (group != nullptr && (group->rank() != shard.rank || group->world() != shard.ranks)) {
    return invalid_argument("communicator: expected rank " + std::to_string(shard.rank) + " of " +
                            std::to_string(shard.ranks) + ", found rank " +
                            std::to_string(group->rank()) + " of " +
                            std::to_string(group->world()));
  }
  impl_->group = group;
  return ok();
}

Result<std::span<const SampledToken>> RankModel::step(std::span<const step::StepItem> items) {
  Impl& impl = *impl_;
  const auto allocations = [&]() -> std::uint64_t {
    return impl.options.allocation_counter == nullptr ? 0 : impl.options.allocation_counter();
  };
  const std::uint64_t start = now_ns();
  const std::uint64_t allocated = allocations();
  const std::uint64_t collective = impl.group == nullptr ? 0 : impl.group->counters().elapsed_ns;
  Status status = impl.run(items);
  if (impl.group != nullptr) {
    impl.counters.collective_ns = impl.group->counters().elapsed_ns - collective;
  }
  impl.counters.allocations += allocations() - allocated;
  impl.counters.step_ns = now_ns() - start;
  impl.counters.preparations = impl.forward->program.preparations();
  ++impl.counters.steps;
  if (!status) {
    return std::move(status).error();
  }
  return std::span<const SampledToken>(impl.rows(), items.size());
}

std::uint64_t RankModel::numerics_fingerprint() const {
  return impl_->fingerprint;
}
const RankCounters& RankModel::counters() const {
  return impl_->counters;
}
const Program& RankModel::program() const {
  return impl_->forward->program;
}
void RankModel::keep_raw_logits(std::span<float> out) {
  impl_->sampler->keep_raw_logits(out);
}

}  // namespace phalanx::model
