// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/table_digest.h"

#include <bit>

#include "phalanx/base/check.h"
#include "phalanx/base/hash.h"

namespace phalanx::step {
namespace {

std::uint64_t chain(std::uint64_t before, std::uint32_t word) {
  return mix64(before ^ mix64(word + 0x9E3779B97F4A7C15ULL));
}

std::uint64_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

// The same things under one name, however they are kept.
struct Parts {
  std::uint64_t sequence;
  std::uint32_t prompt_tokens;
  std::uint32_t choice;
  const SamplingNumbers& sampling;
  std::span<const TokenId> masked;
  std::span<const TokenId> tokens;
  std::span<const std::uint32_t> blocks;
};

Parts parts_of(const SequenceAttach& sequence) {
  return {sequence.sequence,
          sequence.prompt_tokens,
          sequence.choice,
          sequence.sampling,
          sequence.masked_until_min_tokens,
          sequence.tokens,
          sequence.blocks};
}

Parts parts_of(const SequenceView& view) {
  return {view.row.sequence,
          view.row.prompt_tokens,
          view.row.choice,
          view.row.sampling,
          std::span(view.row.masked).first(view.row.masked_count),
          view.tokens,
          view.blocks};
}

const std::vector<std::pair<TokenId, float>>& bias_of(const SequenceAttach& sequence) {
  return sequence.sampling.logit_bias;
}

std::span<const RowBias> bias_of(const SequenceView& view) {
  return std::span(view.row.bias).first(view.row.bias_count);
}

// Everything about a sequence that never changes while it is attached.
template <typename Biases>
std::uint64_t parameters_of(const Parts& parts, const Biases& biases) {
  const SamplingNumbers& sampling = parts.sampling;
  Fingerprint print;
  print.add(parts.prompt_tokens).add(parts.choice).add(sampling.seed);
  print.add(bits(sampling.temperature)).add(static_cast<std::uint64_t>(sampling.top_k));
  print.add(bits(sampling.top_p)).add(bits(sampling.min_p));
  print.add(bits(sampling.repetition_penalty)).add(bits(sampling.presence_penalty));
  print.add(bits(sampling.frequency_penalty)).add(sampling.min_tokens);
  print.add(static_cast<std::uint64_t>(sampling.top_logprobs)).add(biases.size());
  for (const auto& [token, bias] : biases) {
    print.add(static_cast<std::uint64_t>(token)).add(bits(bias));
  }
  print.add(parts.masked.size());
  for (const TokenId token : parts.masked) {
    print.add(static_cast<std::uint64_t>(token));
  }
  return print.value();
}

}  // namespace

TableDigest::TableDigest(std::uint32_t slots) : rows_(slots) {}

void TableDigest::clear() {
  rows_.assign(rows_.size(), Row{});
}

template <typename Sequence>
void TableDigest::attach_any(std::uint32_t slot, const Sequence& sequence) {
  const Parts parts = parts_of(sequence);
  PHALANX_CHECK(slot < rows_.size(), "slot outside the table");
  PHALANX_CHECK(parts.sequence != 0, "sequences count from 1");
  Row& row = rows_[slot];
  row = Row{};
  row.sequence = parts.sequence;
  row.parameters = parameters_of(parts, bias_of(sequence));
  for (const TokenId token : parts.tokens) {
    append(slot, token);
  }
  extend(slot, parts.blocks);
}

void TableDigest::attach(const SequenceAttach& sequence) {
  attach_any(sequence.slot, sequence);
}

void TableDigest::attach(std::uint32_t slot, const SequenceView& sequence) {
  attach_any(slot, sequence);
}

void TableDigest::detach(std::uint32_t slot) {
  PHALANX_CHECK(slot < rows_.size(), "slot outside the table");
  rows_[slot] = Row{};
}

void TableDigest::append(std::uint32_t slot, TokenId token) {
  PHALANX_CHECK(contains(slot), "nothing is attached to the slot");
  Row& row = rows_[slot];
  row.tokens = chain(row.tokens, static_cast<std::uint32_t>(token));
  ++row.length;
}

void TableDigest::extend(std::uint32_t slot, std::span<const std::uint32_t> blocks) {
  PHALANX_CHECK(contains(slot), "nothing is attached to the slot");
  Row& row = rows_[slot];
  for (const std::uint32_t block : blocks) {
    row.blocks = chain(row.blocks, block);
    ++row.block_count;
  }
}

std::uint64_t TableDigest::hash(std::span<const StepItem> items) const {
  Fingerprint print;
  for (std::size_t slot = 0; slot < rows_.size(); ++slot) {
    const Row& row = rows_[slot];
    if (row.sequence != 0) {
      print.add(slot).add(row.sequence).add(row.parameters).add(row.tokens).add(row.blocks);
      print.add((std::uint64_t{row.length} << 32) | row.block_count);
    }
  }
  print.add(items.size());
  for (const StepItem& item : items) {
    print.add(item.slot).add(item.sequence).add(item.start).add(item.count);
    print.add(item.sample ? 1 : 0);
  }
  return print.value();
}

}  // namespace phalanx::step
