// SPDX-License-Identifier: Apache-2.0
#include "cpu_runner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "phalanx/model/callables.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"

namespace phalanx::worker {

namespace {

model::SequenceSpec spec_of(const step::SequenceAttach& attach) {
  model::SequenceSpec spec;
  spec.slot = attach.slot;
  spec.sequence = attach.sequence;
  spec.tokens = attach.tokens;
  spec.prompt_tokens = attach.prompt_tokens;
  spec.choice = attach.choice;
  spec.sampling = attach.sampling;
  spec.logit_bias = attach.sampling.logit_bias;
  spec.masked_until_min_tokens = attach.masked_until_min_tokens;
  return spec;
}

void store(const model::SampledToken& sampled, step::SampleResult* result) {
  if (sampled.token < 0) {
    result->fault = static_cast<std::uint32_t>(Code::kInvalidArgument);
    return;
  }
  result->token = sampled.token;
  result->logprob = sampled.logprob;
  result->top_count = sampled.top_count;
  for (std::uint32_t i = 0; i < sampled.top_count; ++i) {
    result->top[i] = {sampled.top[i].token, sampled.top[i].logprob};
  }
}

}  // namespace

CpuRunner::CpuRunner(std::unique_ptr<kernels::ThreadTeam> team,
                     std::unique_ptr<model::RankModel> rank_model,
                     GroupMember& group,
                     os::Mapping& kv,
                     std::uint32_t max_num_seqs)
    : team_(std::move(team)), model_(std::move(rank_model)), group_(group), kv_(kv) {
  items_.reserve(max_num_seqs);
}

Result<engine::RunnerIdentity> CpuRunner::identity() {
  return engine::RunnerIdentity{model::callables_hash(), model_->numerics_fingerprint()};
}

Status CpuRunner::init(Epoch epoch) {
  table_status_ = ok();
  PHALANX_RETURN_IF_ERROR(model_->join(nullptr));
  PHALANX_RETURN_IF_ERROR(group_.join(epoch));
  return model_->join(group_.communicator());
}

Status CpuRunner::sanity() {
  return group_.communicator()->sanity();
}

void CpuRunner::on_slot_changed(const engine::SequenceTable& table, std::uint32_t slot) {
  const std::array<std::uint32_t, 1> freed = {slot};
  Status status;
  if (table.contains(slot)) {
    const std::array<model::SequenceSpec, 1> added = {spec_of(table.at(slot))};
    status = model_->update(freed, added);
  } else {
    status = model_->update(freed, {});
  }
  if (!status && table_status_) {
    table_status_ = std::move(status);
  }
}

Status CpuRunner::step(StepId,
                       const engine::SequenceTable&,
                       std::span<const step::StepItem> items,
                       std::span<step::SampleResult> results) {
  if (!table_status_) {
    return std::exchange(table_status_, ok());
  }
  items_.clear();
  for (const step::StepItem& item : items) {
    items_.push_back({item.slot, item.sequence, item.start, item.count, item.sample, item.blocks});
  }
  PHALANX_TRY(const std::span<const model::SampledToken> sampled, model_->step(items_));
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].sample) {
      store(sampled[i], &results[i]);
    }
  }
  return ok();
}

Status CpuRunner::clear(bool zero_kv) {
  table_status_ = ok();
  model_->clear();
  // New memory is zeroes; the replica gives it again, block by block, to what uses it.
  return zero_kv ? kv_.discard() : ok();
}

Status CpuRunner::unload() {
  model_->unload();
  return ok();
}

engine::RunnerCounters CpuRunner::counters() const {
  const model::RankCounters& counters = model_->counters();
  engine::RunnerCounters result;
  result.collective_us = counters.collective_ns / 1000;
  result.compute_us = (counters.step_ns - counters.collective_ns) / 1000;
  result.preparations = counters.preparations;
  result.allocations = counters.allocations;
  return result;
}

}  // namespace phalanx::worker
