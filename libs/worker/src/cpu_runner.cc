// SPDX-License-Identifier: Apache-2.0
#include "cpu_runner.h"

#include <algorithm>
#include <utility>

#include "phalanx/model/callables.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"

namespace phalanx::worker {

namespace {

Code code_of(model::RowFault fault) {
  return fault == model::RowFault::kLogits ? Code::kDataLoss : Code::kInvalidArgument;
}

void store(const model::SampledToken& sampled, step::SampleResult* result) {
  if (sampled.fault != model::RowFault::kNone) {
    result->fault = static_cast<std::uint32_t>(code_of(sampled.fault));
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
                     os::Mapping& kv)
    : team_(std::move(team)), model_(std::move(rank_model)), group_(group), kv_(kv) {}

Result<engine::RunnerIdentity> CpuRunner::identity() {
  return engine::RunnerIdentity{model::callables_hash(), model_->numerics_fingerprint()};
}

Status CpuRunner::init(Epoch epoch) {
  PHALANX_RETURN_IF_ERROR(model_->join(nullptr));
  PHALANX_RETURN_IF_ERROR(group_.join(epoch));
  return model_->join(group_.communicator());
}

Status CpuRunner::sanity() {
  return group_.communicator()->sanity();
}

Status CpuRunner::step(const step::SequenceTable& /*table*/,
                       std::span<const step::StepItem> items,
                       std::span<step::SampleResult> results) {
  PHALANX_TRY(const std::span<const model::SampledToken> sampled, model_->step(items));
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].sample) {
      store(sampled[i], &results[i]);
    }
  }
  return ok();
}

Status CpuRunner::clear(bool zero_kv) {
  // New memory is zeroes; the replica gives it again, block by block, to what uses it.
  return zero_kv ? kv_.discard() : ok();
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
