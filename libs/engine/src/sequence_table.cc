// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/sequence_table.h"

#include <string>

#include "phalanx/base/check.h"
#include "phalanx/engine/sequence.h"
#include "phalanx/step/item.h"

namespace phalanx::engine {
namespace {

std::string named(const step::StepItem& item) {
  return "sequence " + std::to_string(item.sequence) + " in slot " + std::to_string(item.slot);
}

}  // namespace

SequenceTable::SequenceTable(std::uint32_t slots, std::uint32_t max_model_len)
    : rows_(slots), digest_(slots), max_model_len_(max_model_len) {}

Status SequenceTable::attach(const step::SequenceAttach& sequence) {
  if (sequence.slot >= slots()) {
    return failed_precondition("slot " + std::to_string(sequence.slot) + " of " +
                               std::to_string(slots()));
  }
  if (contains(sequence.slot)) {
    return failed_precondition("slot " + std::to_string(sequence.slot) + " holds sequence " +
                               std::to_string(rows_[sequence.slot].sequence));
  }
  if (sequence.sequence == 0 || sequence.tokens.empty() ||
      sequence.tokens.size() > max_model_len_ || sequence.prompt_tokens == 0 ||
      sequence.prompt_tokens > sequence.tokens.size()) {
    return failed_precondition("sequence " + std::to_string(sequence.sequence) + " with " +
                               std::to_string(sequence.tokens.size()) + " tokens, " +
                               std::to_string(sequence.prompt_tokens) + " of them prompt");
  }
  step::SequenceAttach& row = rows_[sequence.slot];
  row = sequence;
  row.tokens.reserve(max_model_len_);
  digest_.attach(sequence);
  return ok();
}

Status SequenceTable::detach(std::uint32_t slot) {
  if (slot >= slots()) {
    return failed_precondition("slot " + std::to_string(slot) + " of " + std::to_string(slots()));
  }
  digest_.detach(slot);
  return ok();
}

void SequenceTable::clear() {
  digest_.clear();
}

Status SequenceTable::check(const step::StepItem& item) const {
  if (!contains(item.slot) || rows_[item.slot].sequence != item.sequence) {
    return failed_precondition(named(item) + " is not attached");
  }
  const std::uint64_t length = rows_[item.slot].tokens.size();
  const std::uint64_t end = std::uint64_t{item.start} + item.count;
  if (item.count == 0 || end > length || (item.sample && end != length)) {
    return failed_precondition(named(item) + ": positions " + std::to_string(item.start) + " to " +
                               std::to_string(end) + " of " + std::to_string(length));
  }
  if (item.sample && length >= max_model_len_) {
    return failed_precondition(named(item) + " has no room for another token");
  }
  if (item.blocks.size() < step::blocks_for(static_cast<std::uint32_t>(end))) {
    return failed_precondition(named(item) + ": " + std::to_string(item.blocks.size()) +
                               " blocks for " + std::to_string(end) + " tokens");
  }
  return ok();
}

void SequenceTable::append(std::uint32_t slot, TokenId token) {
  PHALANX_CHECK(contains(slot) && rows_[slot].tokens.size() < max_model_len_, "no room");
  rows_[slot].tokens.push_back(token);
  digest_.append(slot, token);
}

}  // namespace phalanx::engine
