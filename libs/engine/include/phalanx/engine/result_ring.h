// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "phalanx/base/ids.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/wire/rank_messages.h"

namespace phalanx::engine {

// Where a replica reads what a step sampled.
class ResultSource {
 public:
  ResultSource() = default;
  ResultSource(const ResultSource&) = delete;
  ResultSource& operator=(const ResultSource&) = delete;
  virtual ~ResultSource() = default;

  // The result of item `row` of `step`; none if the rank has not written it.
  [[nodiscard]] virtual std::optional<step::SampleResult> read(StepId step, std::uint32_t row) = 0;
};

// Rows in plain memory that one process writes and one reads: the memfd of a rank slot, mapped by
// both. It survives its writer.
//
// The memory is the caller's, outlives the ring, and is zero at first.
// Threads: one writer, any readers; a row is published by a release store of its step.
class ResultRing final : public ResultSource {
 public:
  // Requires memory.size() == rows * kResultRingSteps.
  ResultRing(std::span<step::SampleResult> memory, std::uint32_t rows);

  [[nodiscard]] std::uint32_t rows() const { return rows_; }
  void publish(StepId step, std::uint32_t row, const step::SampleResult& result);
  [[nodiscard]] std::optional<step::SampleResult> read(StepId step, std::uint32_t row) override;

 private:
  [[nodiscard]] step::SampleResult& cell(StepId step, std::uint32_t row) const;

  std::span<step::SampleResult> memory_;
  std::uint32_t rows_;
};

}  // namespace phalanx::engine
