// SPDX-License-Identifier: Apache-2.0
#include "step_inputs.h"

#include <string>

#include "phalanx/model/kv_layout.h"
#include "phalanx/step/limits.h"

namespace phalanx::model {
namespace {

std::string item_text(std::uint32_t index, const StepItem& item) {
  return "step item " + std::to_string(index) + " (sequence " + std::to_string(item.sequence) + ")";
}

Error wrong_item(std::uint32_t index,
                 const StepItem& item,
                 const char* what,
                 std::uint64_t expected,
                 std::uint64_t found) {
  return invalid_argument(item_text(index, item) + ": " + what + " " + std::to_string(expected) +
                          ", found " + std::to_string(found));
}

}  // namespace

StepInputs::StepInputs(const step::RankLimits& limits, std::uint32_t kv_heads, std::uint32_t group)
    : limits_(limits),
      kv_heads_(kv_heads),
      group_(group),
      tokens_(limits.max_num_batched_tokens),
      positions_(limits.max_num_batched_tokens),
      kv_slots_(limits.max_num_batched_tokens),
      sequences_(limits.max_num_seqs),
      sample_rows_(limits.max_num_seqs),
      samples_(limits.max_num_seqs),
      slot_seen_(limits.max_num_seqs) {}

std::size_t StepInputs::heap_bytes(const step::RankLimits& limits) {
  return limits.max_num_batched_tokens *
             (sizeof(TokenId) + sizeof(std::uint32_t) + sizeof(std::uint64_t)) +
         limits.max_num_seqs * (sizeof(kernels::AttentionSequence) + sizeof(SampleRow) +
                                sizeof(std::uint32_t) + sizeof(std::uint64_t));
}

Status StepInputs::check_item(std::uint32_t index,
                              const StepItem& item,
                              const SequenceTable& table) const {
  if (item.slot >= limits_.max_num_seqs) {
    return wrong_item(index, item, "expected a slot below", limits_.max_num_seqs, item.slot);
  }
  const SequenceRow& row = table.row(item.slot);
  if (row.live == 0 || row.sequence != item.sequence) {
    return failed_precondition(
        item_text(index, item) + ": expected in slot " + std::to_string(item.slot) + ", found " +
        (row.live == 0 ? "no sequence" : "sequence " + std::to_string(row.sequence)));
  }
  if (slot_seen_[item.slot] == fill_) {
    return invalid_argument(item_text(index, item) + ": expected one item per sequence");
  }
  const std::uint64_t end = std::uint64_t{item.start} + item.count;
  if (item.count == 0 || end > limits_.max_model_len) {
    return wrong_item(index, item, "expected positions below", limits_.max_model_len, end);
  }
  if (end > row.length) {
    return failed_precondition(item_text(index, item) + ": expected input tokens below position " +
                               std::to_string(row.length) + ", found position " +
                               std::to_string(end - 1));
  }
  if (item.sample && end >= limits_.max_model_len) {
    return wrong_item(index, item, "expected to sample below", limits_.max_model_len, end);
  }
  if (item.sample && end < row.prompt_tokens) {
    return wrong_item(index, item, "expected to sample from position", row.prompt_tokens, end);
  }
  const std::uint32_t needed = step::blocks_for(static_cast<std::uint32_t>(end));
  if (item.blocks.size() < needed) {
    return wrong_item(index, item, "expected blocks, at least", needed, item.blocks.size());
  }
  for (const std::uint32_t block : item.blocks) {
    if (block >= limits_.kv_blocks) {
      return wrong_item(index, item, "expected blocks below", limits_.kv_blocks, block);
    }
  }
  return ok();
}

Status StepInputs::check(std::span<const StepItem> items, const SequenceTable& table) {
  if (items.empty() || items.size() > limits_.max_num_seqs) {
    return invalid_argument("step: expected from 1 to " + std::to_string(limits_.max_num_seqs) +
                            " items, found " + std::to_string(items.size()));
  }
  ++fill_;
  std::uint64_t rows = 0;
  for (std::uint32_t index = 0; index < items.size(); ++index) {
    PHALANX_RETURN_IF_ERROR(check_item(index, items[index], table));
    slot_seen_[items[index].slot] = fill_;
    rows += items[index].count;
  }
  if (rows > limits_.max_num_batched_tokens) {
    return invalid_argument("step: expected at most " +
                            std::to_string(limits_.max_num_batched_tokens) + " tokens, found " +
                            std::to_string(rows));
  }
  return ok();
}

void StepInputs::fill_item(std::uint32_t index, const StepItem& item, const SequenceTable& table) {
  const std::span<const TokenId> tokens = table.tokens(item.slot);
  kernels::AttentionSequence& sequence = sequences_[index];
  sequence = {};
  sequence.first_row = shape_.rows;
  sequence.row_count = item.count;
  sequence.first_position = item.start;
  sequence.blocks = item.blocks.data();
  for (std::uint32_t i = 0; i < item.count; ++i) {
    const std::uint32_t position = item.start + i;
    const std::uint32_t row = shape_.rows + i;
    tokens_[row] = tokens[position];
    positions_[row] = position;
    kv_slots_[row] =
        std::uint64_t{item.blocks[position / step::kBlockTokens]} * step::kBlockTokens +
        position % step::kBlockTokens;
  }
  shape_.rows += item.count;
  if (item.sample) {
    sample_rows_[shape_.sample_rows] = shape_.rows - 1;
    samples_[shape_.sample_rows] = {index, item.slot, item.start + item.count};
    ++shape_.sample_rows;
  }
}

Status StepInputs::fill(std::span<const StepItem> items, const SequenceTable& table) {
  PHALANX_RETURN_IF_ERROR(check(items, table));
  shape_ = {};
  for (std::uint32_t index = 0; index < items.size(); ++index) {
    fill_item(index, items[index], table);
  }
  shape_.sequences = static_cast<std::uint32_t>(items.size());
  shape_.attention_tiles =
      kernels::plan_attention(std::span(sequences_).first(items.size()), kv_heads_, group_);
  return ok();
}

}  // namespace phalanx::model
