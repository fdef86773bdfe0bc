// SPDX-License-Identifier: Apache-2.0
#include "step_inputs.h"

#include "phalanx/step/limits.h"

namespace phalanx::model {

StepInputs::StepInputs(const step::RankLimits& limits,
                       std::uint32_t kv_heads,
                       std::uint32_t group,
                       const kernels::AttentionTeam& team)
    : kv_heads_(kv_heads),
      group_(group),
      team_(team),
      tokens_(limits.max_num_batched_tokens),
      positions_(limits.max_num_batched_tokens),
      kv_slots_(limits.max_num_batched_tokens),
      sequences_(limits.max_num_seqs),
      sample_rows_(limits.max_num_seqs),
      sample_positions_(limits.max_num_seqs),
      sampled_(limits.max_num_seqs),
      samples_(limits.max_num_seqs) {}

std::size_t StepInputs::heap_bytes(const step::RankLimits& limits) {
  return limits.max_num_batched_tokens *
             (sizeof(TokenId) + sizeof(std::uint32_t) + sizeof(std::uint64_t)) +
         limits.max_num_seqs * (2 * sizeof(kernels::AttentionSequence) + sizeof(SampleRow) +
                                2 * sizeof(std::uint32_t));
}

void StepInputs::fill_item(std::uint32_t index,
                           const step::StepItem& item,
                           const step::SequenceTable& table) {
  const std::span<const TokenId> tokens = table.tokens(item.slot);
  const std::span<const std::uint32_t> blocks = table.blocks(item.slot);
  kernels::AttentionSequence& sequence = sequences_[index];
  sequence = {};
  sequence.first_row = shape_.rows;
  sequence.row_count = item.count;
  sequence.first_position = item.start;
  sequence.blocks = blocks.data();
  for (std::uint32_t i = 0; i < item.count; ++i) {
    const std::uint32_t position = item.start + i;
    const std::uint32_t row = shape_.rows + i;
    tokens_[row] = tokens[position];
    positions_[row] = position;
    kv_slots_[row] = std::uint64_t{blocks[position / step::kBlockTokens]} * step::kBlockTokens +
                     position % step::kBlockTokens;
  }
  shape_.rows += item.count;
  if (item.sample) {
    fill_sample(index, item);
  }
}

void StepInputs::fill_sample(std::uint32_t index, const step::StepItem& item) {
  const std::uint32_t row = shape_.sample_rows++;
  sample_rows_[row] = shape_.rows - 1;
  sample_positions_[row] = item.start + item.count - 1;
  samples_[row] = {index, item.slot, item.start + item.count};
  kernels::AttentionSequence& last = sampled_[row];
  last = {};
  last.first_row = row;
  last.row_count = 1;
  last.first_position = sample_positions_[row];
  last.blocks = sequences_[index].blocks;
}

void StepInputs::fill(std::span<const step::StepItem> items, const step::SequenceTable& table) {
  shape_ = {};
  for (std::uint32_t index = 0; index < items.size(); ++index) {
    fill_item(index, items[index], table);
  }
  shape_.sequences = static_cast<std::uint32_t>(items.size());
  shape_.attention =
      kernels::plan_attention(std::span(sequences_).first(items.size()), kv_heads_, group_, team_);
  shape_.sampled_attention = kernels::plan_attention(
      std::span(sampled_).first(shape_.sample_rows), kv_heads_, group_, team_);
}

}  // namespace phalanx::model
