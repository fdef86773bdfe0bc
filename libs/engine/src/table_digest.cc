// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/table_digest.h"

#include <bit>

#include "phalanx/base/check.h"
#include "phalanx/base/hash.h"
#include "phalanx/step/item.h"

namespace phalanx::engine {
namespace {

std::uint64_t chain(std::uint64_t tokens, TokenId token) {
  return mix64(tokens ^ mix64(static_cast<std::uint32_t>(token) + 0x9E3779B97F4A7C15ULL));
}

std::uint64_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

// Everything about a sequence that never changes while it is attached.
std::uint64_t parameters_of(const step::SequenceAttach& sequence) {
  const step::SamplingParams& sampling = sequence.sampling;
  Fingerprint print;
  print.add(sequence.prompt_tokens).add(sequence.choice).add(sampling.seed);
  print.add(bits(sampling.temperature)).add(static_cast<std::uint64_t>(sampling.top_k));
  print.add(bits(sampling.top_p)).add(bits(sampling.min_p));
  print.add(bits(sampling.repetition_penalty)).add(bits(sampling.presence_penalty));
  print.add(bits(sampling.frequency_penalty)).add(sampling.min_tokens);
  print.add(static_cast<std::uint64_t>(sampling.top_logprobs)).add(sampling.logit_bias.size());
  for (const auto& [token, bias] : sampling.logit_bias) {
    print.add(static_cast<std::uint64_t>(token)).add(bits(bias));
  }
  print.add(sequence.masked_until_min_tokens.size());
  for (const TokenId token : sequence.masked_until_min_tokens) {
    print.add(static_cast<std::uint64_t>(token));
  }
  return print.value();
}

}  // namespace

TableDigest::TableDigest(std::uint32_t slots) : rows_(slots) {}

void TableDigest::clear() {
  rows_.assign(rows_.size(), Row{});
}

void TableDigest::attach(const step::SequenceAttach& sequence) {
  PHALANX_CHECK(sequence.slot < rows_.size(), "slot outside the table");
  PHALANX_CHECK(sequence.sequence != 0, "sequences count from 1");
  Row& row = rows_[sequence.slot];
  row.sequence = sequence.sequence;
  row.parameters = parameters_of(sequence);
  row.tokens = 0;
  for (const TokenId token : sequence.tokens) {
    row.tokens = chain(row.tokens, token);
  }
  row.length = static_cast<std::uint32_t>(sequence.tokens.size());
  row.produced = row.length - sequence.prompt_tokens;
}

void TableDigest::detach(std::uint32_t slot) {
  PHALANX_CHECK(slot < rows_.size(), "slot outside the table");
  rows_[slot] = Row{};
}

void TableDigest::append(std::uint32_t slot, TokenId token) {
  PHALANX_CHECK(contains(slot), "nothing is attached to the slot");
  Row& row = rows_[slot];
  row.tokens = chain(row.tokens, token);
  ++row.length;
  ++row.produced;
}

std::uint64_t TableDigest::hash(std::span<const step::StepItem> items) const {
  Fingerprint print;
  for (std::size_t slot = 0; slot < rows_.size(); ++slot) {
    const Row& row = rows_[slot];
    if (row.sequence != 0) {
      print.add(slot).add(row.sequence).add(row.parameters).add(row.tokens);
      print.add((std::uint64_t{row.length} << 32) | row.produced);
    }
  }
  print.add(items.size());
  for (const step::StepItem& item : items) {
    print.add(item.slot).add(item.sequence).add(item.start).add(item.count);
    print.add(item.sample ? 1 : 0).add(item.blocks.size());
    for (const std::uint32_t block : item.blocks) {
      print.add(block);
    }
  }
  return print.value();
}

}  // namespace phalanx::engine
