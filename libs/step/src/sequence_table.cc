// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/sequence_table.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
#include <type_traits>

#include "phalanx/base/check.h"

namespace phalanx::step {
namespace {

// A row begins a cache line, so that two of them never share one.
constexpr std::size_t kRowAlignment = 64;

static_assert(std::is_trivially_copyable_v<SequenceRow>);
static_assert(sizeof(SequenceRow) % alignof(TokenId) == 0);
static_assert(sizeof(TokenId) == sizeof(std::uint32_t));

std::size_t row_bytes_of(const RankLimits& limits) {
  const std::size_t words = std::size_t{limits.max_model_len} + blocks_for(limits.max_model_len);
  const std::size_t bytes = sizeof(SequenceRow) + words * sizeof(std::uint32_t);
  return (bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

std::string named(std::uint64_t sequence, std::uint32_t slot) {
  return "sequence " + std::to_string(sequence) + " in slot " + std::to_string(slot);
}

Status check_slot(std::uint32_t slot, std::uint32_t slots) {
  if (slot >= slots) {
    return failed_precondition("slot " + std::to_string(slot) + " of " + std::to_string(slots));
  }
  return ok();
}

}  // namespace

std::size_t SequenceTable::bytes_for(const RankLimits& limits) {
  return row_bytes_of(limits) * limits.max_num_seqs;
}

SequenceTable::SequenceTable(std::span<std::byte> memory,
                             const RankLimits& limits,
                             std::uint32_t vocab)
    : memory_(memory),
      limits_(limits),
      vocab_(vocab),
      row_bytes_(row_bytes_of(limits)),
      digest_(limits.max_num_seqs) {}

Result<SequenceTable> SequenceTable::map(std::span<std::byte> memory,
                                         const RankLimits& limits,
                                         std::uint32_t vocab) {
  if (memory.size() < bytes_for(limits) ||
      reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(SequenceRow) != 0) {
    return invalid_argument("sequence table: expected " + std::to_string(bytes_for(limits)) +
                            " aligned bytes, found " + std::to_string(memory.size()));
  }
  SequenceTable table(memory, limits, vocab);
  table.clear();
  return table;
}

void SequenceTable::clear() {
  digest_.clear();
  for (std::uint32_t slot = 0; slot < limits_.max_num_seqs; ++slot) {
    writable_row(slot).sequence = 0;
  }
}

std::byte* SequenceTable::at(std::uint32_t slot) const {
  PHALANX_DCHECK(slot < limits_.max_num_seqs, "slot out of range");
  return memory_.data() + slot * row_bytes_;
}

SequenceRow& SequenceTable::writable_row(std::uint32_t slot) const {
  return *std::launder(reinterpret_cast<SequenceRow*>(at(slot)));
}

TokenId* SequenceTable::token_memory(std::uint32_t slot) const {
  return reinterpret_cast<TokenId*>(at(slot) + sizeof(SequenceRow));
}

std::uint32_t* SequenceTable::block_memory(std::uint32_t slot) const {
  return reinterpret_cast<std::uint32_t*>(token_memory(slot) + limits_.max_model_len);
}

const SequenceRow& SequenceTable::row(std::uint32_t slot) const {
  return writable_row(slot);
}

std::span<const TokenId> SequenceTable::tokens(std::uint32_t slot) const {
  return {token_memory(slot), row(slot).length};
}

std::span<const std::uint32_t> SequenceTable::blocks(std::uint32_t slot) const {
  return {block_memory(slot), row(slot).block_count};
}

// Every token in the vocabulary, every block in the KV cache.
bool SequenceTable::names_what_there_is(const SequenceAttach& sequence) const {
  const auto is_token = [&](TokenId id) {
    return id >= 0 && static_cast<std::uint32_t>(id) < vocab_;
  };
  const auto is_biased_token = [&](const auto& bias) { return is_token(bias.first); };
  const auto is_block = [&](std::uint32_t block) { return block < limits_.kv_blocks; };
  return std::ranges::all_of(sequence.tokens, is_token) &&
         std::ranges::all_of(sequence.masked_until_min_tokens, is_token) &&
         std::ranges::all_of(sequence.sampling.logit_bias, is_biased_token) &&
         std::ranges::all_of(sequence.blocks, is_block);
}

Status SequenceTable::check_attach(const SequenceAttach& sequence) const {
  PHALANX_RETURN_IF_ERROR(check_slot(sequence.slot, limits_.max_num_seqs));
  const auto name = [&] { return named(sequence.sequence, sequence.slot); };
  if (contains(sequence.slot)) {
    return failed_precondition(name() + ": the slot holds sequence " +
                               std::to_string(row(sequence.slot).sequence));
  }
  const std::size_t length = sequence.tokens.size();
  if (sequence.sequence == 0 || length == 0 || length > limits_.max_model_len ||
      sequence.prompt_tokens == 0 || sequence.prompt_tokens > length) {
    return failed_precondition(name() + " with " + std::to_string(length) + " tokens, " +
                               std::to_string(sequence.prompt_tokens) + " of them prompt");
  }
  if (sequence.blocks.size() > blocks_for(limits_.max_model_len) ||
      sequence.sampling.logit_bias.size() > kMaxLogitBias ||
      sequence.masked_until_min_tokens.size() > kMaxStopTokens) {
    return failed_precondition(
        name() + " with " + std::to_string(sequence.blocks.size()) + " blocks, " +
        std::to_string(sequence.sampling.logit_bias.size()) + " biases and " +
        std::to_string(sequence.masked_until_min_tokens.size()) + " masked tokens");
  }
  if (!names_what_there_is(sequence)) {
    return failed_precondition(name() + " names a token beyond the " + std::to_string(vocab_) +
                               " of the vocabulary, or a KV block beyond the " +
                               std::to_string(limits_.kv_blocks) + " there are");
  }
  return ok();
}

Status SequenceTable::attach(const SequenceAttach& sequence) {
  PHALANX_RETURN_IF_ERROR(check_attach(sequence));
  const std::uint32_t slot = sequence.slot;
  SequenceRow& row = writable_row(slot);
  row = SequenceRow();
  row.sequence = sequence.sequence;
  row.length = static_cast<std::uint32_t>(sequence.tokens.size());
  row.prompt_tokens = sequence.prompt_tokens;
  row.choice = sequence.choice;
  row.block_count = static_cast<std::uint32_t>(sequence.blocks.size());
  row.sampling = static_cast<const SamplingNumbers&>(sequence.sampling);
  for (const auto& [token, bias] : sequence.sampling.logit_bias) {
    row.bias[row.bias_count++] = {token, bias};
  }
  row.masked_count = static_cast<std::uint32_t>(sequence.masked_until_min_tokens.size());
  std::copy(sequence.masked_until_min_tokens.begin(),
            sequence.masked_until_min_tokens.end(),
            row.masked.begin());
  std::copy(sequence.tokens.begin(), sequence.tokens.end(), token_memory(slot));
  std::copy(sequence.blocks.begin(), sequence.blocks.end(), block_memory(slot));
  digest_.attach(slot, {row, tokens(slot), blocks(slot)});
  return ok();
}

Status SequenceTable::detach(std::uint32_t slot) {
  PHALANX_RETURN_IF_ERROR(check_slot(slot, limits_.max_num_seqs));
  writable_row(slot).sequence = 0;
  digest_.detach(slot);
  return ok();
}

Status SequenceTable::check(const StepItem& item) const {
  const auto name = [&] { return named(item.sequence, item.slot); };
  if (!contains(item.slot) || row(item.slot).sequence != item.sequence) {
    return failed_precondition(name() + " is not attached");
  }
  const std::uint64_t length = row(item.slot).length;
  const std::uint64_t end = std::uint64_t{item.start} + item.count;
  if (item.count == 0 || end > length || (item.sample && end != length)) {
    return failed_precondition(name() + ": positions " + std::to_string(item.start) + " to " +
                               std::to_string(end) + " of " + std::to_string(length));
  }
  if (item.sample && length >= limits_.max_model_len) {
    return failed_precondition(name() + " has no room for another token");
  }
  return check_blocks(item);
}

Status SequenceTable::check_blocks(const StepItem& item) const {
  const auto name = [&] { return named(item.sequence, item.slot); };
  const std::uint32_t held = row(item.slot).block_count;
  if (item.held_blocks != held) {
    return failed_precondition(name() + " has " + std::to_string(held) + " blocks, the step says " +
                               std::to_string(item.held_blocks));
  }
  const std::size_t blocks = held + item.blocks.size();
  if (blocks < blocks_for(item.start + item.count) || blocks > blocks_for(limits_.max_model_len)) {
    return failed_precondition(name() + ": " + std::to_string(blocks) + " blocks for " +
                               std::to_string(item.start + item.count) + " tokens, of at most " +
                               std::to_string(limits_.max_model_len));
  }
  for (const std::uint32_t block : item.blocks) {
    if (block >= limits_.kv_blocks) {
      return failed_precondition(name() + ": KV block " + std::to_string(block) + " of " +
                                 std::to_string(limits_.kv_blocks));
    }
  }
  return ok();
}

void SequenceTable::extend(const StepItem& item) {
  SequenceRow& row = writable_row(item.slot);
  const std::uint32_t held = row.block_count;
  PHALANX_CHECK(held + item.blocks.size() <= blocks_for(limits_.max_model_len), "no room");
  std::copy(item.blocks.begin(), item.blocks.end(), block_memory(item.slot) + held);
  row.block_count += static_cast<std::uint32_t>(item.blocks.size());
  digest_.extend(item.slot, blocks(item.slot).subspan(held));
}

void SequenceTable::append(std::uint32_t slot, TokenId token) {
  SequenceRow& row = writable_row(slot);
  PHALANX_CHECK(contains(slot) && row.length < limits_.max_model_len, "no room");
  token_memory(slot)[row.length++] = token;
  digest_.append(slot, tokens(slot).back());
}

}  // namespace phalanx::step
