// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/kernels/attention.h"
#include "phalanx/model/callables.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/model/sampler.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sequence_table.h"

namespace phalanx::model {

// The arrays that the prepared program reads, filled from the items of a step. They are made once,
// of the largest size, and never move.
class StepInputs {
 public:
  StepInputs(const step::RankLimits& limits,
             std::uint32_t kv_heads,
             std::uint32_t group,
             const kernels::AttentionTeam& team);

  // Requires what RankModel::step() does. Allocates nothing.
  void fill(std::span<const step::StepItem> items, const step::SequenceTable& table);

  [[nodiscard]] const StepShape& shape() const { return shape_; }
  [[nodiscard]] std::span<const SampleRow> samples() const {
    return {samples_.data(), shape_.sample_rows};
  }

  [[nodiscard]] const TokenId* tokens() const { return tokens_.data(); }
  [[nodiscard]] const std::uint32_t* positions() const { return positions_.data(); }
  [[nodiscard]] const std::uint64_t* kv_slots() const { return kv_slots_.data(); }
  [[nodiscard]] const kernels::AttentionSequence* sequences() const { return sequences_.data(); }
  // Of the items that sample.
  [[nodiscard]] const std::uint32_t* sample_rows() const { return sample_rows_.data(); }
  [[nodiscard]] const std::uint32_t* sample_positions() const { return sample_positions_.data(); }
  [[nodiscard]] const kernels::AttentionSequence* sampled() const { return sampled_.data(); }

  [[nodiscard]] static std::size_t heap_bytes(const step::RankLimits& limits);

 private:
  void fill_item(std::uint32_t index, const step::StepItem& item, const step::SequenceTable& table);
  // Its last row.
  void fill_sample(std::uint32_t index, const step::StepItem& item);

  std::uint32_t kv_heads_;
  std::uint32_t group_;
  kernels::AttentionTeam team_;
  StepShape shape_;
  std::vector<TokenId> tokens_;
  std::vector<std::uint32_t> positions_;
  std::vector<std::uint64_t> kv_slots_;
  std::vector<kernels::AttentionSequence> sequences_;
  std::vector<std::uint32_t> sample_rows_;
  std::vector<std::uint32_t> sample_positions_;
  std::vector<kernels::AttentionSequence> sampled_;
  std::vector<SampleRow> samples_;
};

}  // namespace phalanx::model
