// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/result_ring.h"

#include <atomic>

#include "phalanx/base/check.h"
#include "phalanx/step/sample_result.h"

namespace phalanx::engine {

static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);

ResultRing::ResultRing(std::span<step::SampleResult> memory, std::uint32_t rows)
    : memory_(memory), rows_(rows) {
  PHALANX_CHECK(memory.size() == std::size_t{rows} * step::kResultRingSteps, "size of the ring");
}

step::SampleResult& ResultRing::cell(StepId step, std::uint32_t row) const {
  PHALANX_CHECK(row < rows_, "row outside the ring");
  return memory_[(step.value() % step::kResultRingSteps) * rows_ + row];
}

void ResultRing::publish(StepId step, std::uint32_t row, const step::SampleResult& result) {
  step::SampleResult& target = cell(step, row);
  std::atomic_ref<std::uint64_t> published(target.step);
  // The acquire half keeps the row below from being written before it is marked as unwritten: a
  // rank that is killed in between leaves no torn row.
  static_cast<void>(published.exchange(0, std::memory_order_acq_rel));
  target.sequence = result.sequence;
  target.token = result.token;
  target.logprob = result.logprob;
  target.top_count = result.top_count;
  target.fault = result.fault;
  for (std::size_t i = 0; i < std::size(target.top); ++i) {
    target.top[i] = result.top[i];
  }
  published.store(step.value(), std::memory_order_release);
}

std::optional<step::SampleResult> ResultRing::read(StepId step, std::uint32_t row) {
  step::SampleResult& source = cell(step, row);
  std::atomic_ref<std::uint64_t> published(source.step);
  if (published.load(std::memory_order_acquire) != step.value()) {
    return std::nullopt;
  }
  step::SampleResult copy = source;
  copy.step = step.value();
  return copy;
}

}  // namespace phalanx::engine
