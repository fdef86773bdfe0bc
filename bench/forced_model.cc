// SPDX-License-Identifier: Apache-2.0
#include "forced_model.h"

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "phalanx/collective/communicator.h"
#include "phalanx/collective/segment.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/model/rank_model.h"
#include "phalanx/model/shard_plan.h"
#include "phalanx/os/memfd.h"
#include "phalanx/step/sequence_table.h"

namespace phalanx::bench {

// Its parts in the order in which they need each other.
struct ForcedModel::Impl {
  step::RankLimits limits;
  std::uint32_t vocab = 0;
  os::Mapping segment;
  os::Mapping kv;
  os::Mapping scratch;
  os::Mapping table_memory;
  std::optional<step::SequenceTable> table;
  std::optional<collective::Communicator> group;
  std::unique_ptr<model::RankModel> model;
  std::vector<float> logits;

  Status build(const Arena& arena, kernels::Isa isa, kernels::ThreadTeam& team);
  Status join_alone();
  Status begin(std::uint32_t slot, TokenId first);
  Result<step::StepItem> item_of(std::uint32_t slot, std::uint32_t position);
};

Status ForcedModel::Impl::build(const Arena& arena, kernels::Isa isa, kernels::ThreadTeam& team) {
  vocab = arena.config.vocab;
  model::RankModelOptions options;
  options.config = arena.config;
  options.limits = limits;
  options.isa = isa;
  PHALANX_TRY(options.shard, model::plan_shard(arena.config, 0, 1));
  PHALANX_TRY(const model::RankMemory memory,
              model::rank_memory(arena.config, options.shard, limits));
  PHALANX_TRY(kv, take_memory("kv", memory.kv));
  PHALANX_TRY(scratch, take_memory("scratch", memory.scratch));
  PHALANX_TRY(table_memory, take_memory("sequence table", memory.sequence_table));
  PHALANX_TRY(table, step::SequenceTable::map(table_memory.bytes(), limits, vocab));
  const model::RankRegions regions{
      arena.memory.bytes(), kv.bytes().first(memory.kv), scratch.bytes()};
  PHALANX_TRY(model, model::RankModel::create(options, regions, *table, team));
  logits.resize(std::size_t{limits.max_num_seqs} * vocab);
  model->keep_raw_logits(logits);
  return join_alone();
}

Status ForcedModel::Impl::join_alone() {
  collective::SegmentSpec spec;
  spec.epoch = Epoch(1);
  PHALANX_TRY(segment,
              take_memory("segment", collective::segment_bytes(spec.world, spec.slot_bytes)));
  PHALANX_RETURN_IF_ERROR(collective::initialize_segment(segment.bytes(), spec));
  PHALANX_TRY(group, collective::Communicator::attach(segment.bytes(), spec, RankId(0), {}));
  return model->join(&*group);
}

Status ForcedModel::Impl::begin(std::uint32_t slot, TokenId first) {
  step::SequenceAttach sequence;
  sequence.slot = slot;
  sequence.sequence = slot + 1;
  sequence.tokens = {first};
  sequence.prompt_tokens = 1;
  sequence.sampling.temperature = 0.0F;
  const std::uint32_t blocks = step::blocks_for(limits.max_model_len);
  sequence.blocks.resize(blocks);
  std::iota(sequence.blocks.begin(), sequence.blocks.end(), slot * blocks);
  return table->attach(sequence);
}

Result<step::StepItem> ForcedModel::Impl::item_of(std::uint32_t slot, std::uint32_t position) {
  step::StepItem item;
  item.slot = slot;
  item.sequence = slot + 1;
  item.start = position;
  item.count = 1;
  item.sample = true;
  item.held_blocks = step::blocks_for(limits.max_model_len);
  PHALANX_RETURN_IF_ERROR(table->check(item));
  return item;
}

step::RankLimits limits_of_texts(std::uint32_t sequences,
                                 std::uint32_t tokens,
                                 step::KvFormat kv_format) {
  step::RankLimits limits;
  limits.max_model_len = tokens + 1;  // a step wants room for the token that it draws
  limits.max_num_seqs = sequences;
  limits.max_num_batched_tokens = sequences;
  limits.kv_blocks = sequences * step::blocks_for(limits.max_model_len);
  limits.kv_format = kv_format;
  return limits;
}

ForcedModel::ForcedModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ForcedModel::~ForcedModel() = default;

Result<std::unique_ptr<ForcedModel>> ForcedModel::create(const Arena& arena,
                                                         const step::RankLimits& limits,
                                                         kernels::Isa isa,
                                                         kernels::ThreadTeam& team) {
  auto impl = std::make_unique<Impl>();
  impl->limits = limits;
  PHALANX_RETURN_IF_ERROR(impl->build(arena, isa, team));
  return std::unique_ptr<ForcedModel>(new ForcedModel(std::move(impl)));
}

Result<std::span<const float>> ForcedModel::step(std::span<const std::span<const TokenId>> texts,
                                                 std::uint32_t position) {
  if (position == 0) {
    impl_->table->clear();
  }
  std::vector<step::StepItem> items;
  for (std::uint32_t slot = 0; slot < texts.size(); ++slot) {
    if (position >= texts[slot].size()) {
      continue;
    }
    const TokenId token = texts[slot][position];
    if (position == 0) {
      PHALANX_RETURN_IF_ERROR(impl_->begin(slot, token));
    } else {
      impl_->table->append(slot, token);
    }
    PHALANX_TRY(step::StepItem item, impl_->item_of(slot, position));
    items.push_back(std::move(item));
  }
  PHALANX_TRY(const std::span<const model::SampledToken> sampled, impl_->model->step(items));
  for (const model::SampledToken& row : sampled) {
    if (row.fault != model::RowFault::kNone) {
      return data_loss("position " + std::to_string(position) + ": the logits are not finite");
    }
  }
  return std::span<const float>(impl_->logits).first(items.size() * impl_->vocab);
}

}  // namespace phalanx::bench
