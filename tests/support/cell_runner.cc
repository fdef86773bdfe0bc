// SPDX-License-Identifier: Apache-2.0
#include "support/cell_runner.h"

#include <utility>

#include "phalanx/base/hash.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"

namespace phalanx::testing {
namespace {

std::uint64_t next_cell(std::uint64_t before, TokenId token) {
  return Fingerprint().add(before).add(static_cast<std::uint64_t>(token)).value();
}

TokenId draw(std::uint64_t last, std::uint64_t seed, std::uint32_t choice, std::uint32_t vocab) {
  return static_cast<TokenId>(Fingerprint().add(last).add(seed).add(choice).value() % vocab);
}

}  // namespace

TokenId reference_token(std::span<const TokenId> tokens,
                        std::uint64_t seed,
                        std::uint32_t choice,
                        std::uint32_t vocab_size) {
  std::uint64_t cell = 0;
  for (const TokenId token : tokens) {
    cell = next_cell(cell, token);
  }
  return draw(cell, seed, choice, vocab_size);
}

Result<engine::RunnerIdentity> CellRunner::identity() {
  PHALANX_RETURN_IF_ERROR(take_outcome());
  return identity_value;
}

Status CellRunner::init(Epoch /*epoch*/) {
  return take_outcome();
}

Status CellRunner::step(const step::SequenceTable& table,
                        std::span<const step::StepItem> items,
                        std::span<step::SampleResult> results) {
  for (std::size_t i = 0; i < items.size() && i < rows_written_; ++i) {
    const step::StepItem& item = items[i];
    const step::SequenceRow& sequence = table.row(item.slot);
    const std::span<const std::uint32_t> blocks = table.blocks(item.slot);
    compute(table.tokens(item.slot), blocks, item);
    if (item.sample) {
      const std::uint32_t last = item.start + item.count - 1;
      const std::size_t place =
          std::size_t{blocks[last / step::kBlockTokens]} * step::kBlockTokens +
          last % step::kBlockTokens;
      results[i].token =
          draw(memory_.cells[place], sequence.sampling.seed, sequence.choice, vocab_size_);
      results[i].logprob = -1.0F;
      if (sequence.sampling.seed == kFaultySeed && item.start + item.count >= kFaultyLength) {
        results[i] = {};
        results[i].fault = static_cast<std::uint32_t>(Code::kInvalidArgument);
      }
    }
  }
  return take_outcome();
}

void CellRunner::compute(std::span<const TokenId> tokens,
                         std::span<const std::uint32_t> blocks,
                         const step::StepItem& item) {
  const auto place = [&](std::uint32_t position) -> std::uint64_t& {
    const std::size_t block = blocks[position / step::kBlockTokens];
    return memory_.cells[block * step::kBlockTokens + position % step::kBlockTokens];
  };
  std::uint64_t before = item.start == 0 ? 0 : place(item.start - 1);
  for (std::uint32_t position = item.start; position < item.start + item.count; ++position) {
    before = next_cell(before, tokens[position]);
    place(position) = before;
  }
}

Status CellRunner::clear(bool zero_kv) {
  if (zero_kv) {
    memory_.cells.assign(memory_.cells.size(), 0);
  }
  return take_outcome();
}

Status CellRunner::take_outcome() {
  rows_written_ = 0xFFFFFFFF;
  return std::exchange(outcome_, ok());
}

}  // namespace phalanx::testing
