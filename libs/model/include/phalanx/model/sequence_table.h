// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"

namespace phalanx::model {

// A sequence to be registered. Borrowed for the call.
struct SequenceSpec {
  std::uint32_t slot = 0;
  std::uint64_t sequence = 0;
  std::span<const TokenId> tokens;  // prompt, then what was produced so far
  std::uint32_t prompt_tokens = 0;
  std::uint32_t choice = 0;
  step::SamplingNumbers sampling;
  std::span<const std::pair<TokenId, float>> logit_bias;
  std::span<const TokenId> masked_until_min_tokens;
};

// One row of the table. Plain memory; `tokens` follow it.
struct SequenceRow {
  std::uint32_t live = 0;
  std::uint32_t length = 0;  // tokens known
  std::uint64_t sequence = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t choice = 0;
  std::uint32_t bias_count = 0;
  std::uint32_t masked_count = 0;
  step::SamplingNumbers sampling;
  std::array<TokenId, step::kMaxLogitBias> bias_token{};
  std::array<float, step::kMaxLogitBias> bias{};
  std::array<TokenId, step::kMaxStopTokens> masked{};
};

// The live sequences of a rank, in memory that outlives it: one row per slot. Sampled tokens are
// written here and read back as inputs of later steps.
// Threads: one writer; concurrent reads between writes.
class SequenceTable {
 public:
  struct Limits {
    std::uint32_t slots = 0;
    std::uint32_t tokens = 0;  // of one sequence: max_model_len
    std::uint32_t vocab = 0;
  };
  [[nodiscard]] static std::size_t bytes_for(const Limits& limits);

  // Errors: kInvalidArgument  memory too small or misaligned
  [[nodiscard]] static Result<SequenceTable> map(std::span<std::byte> memory, const Limits& limits);

  // Errors: kInvalidArgument  slot, token ids, lengths or parameters out of range, named
  //         kFailedPrecondition  the slot is taken
  Status add(const SequenceSpec& spec);
  // Errors: kInvalidArgument  no such slot. Removing a free slot is no error.
  Status remove(std::uint32_t slot);
  void clear();

  // Requires slot < limits().slots.
  [[nodiscard]] SequenceRow& row(std::uint32_t slot);
  [[nodiscard]] const SequenceRow& row(std::uint32_t slot) const;
  [[nodiscard]] std::span<TokenId> tokens(std::uint32_t slot);  // capacity, not length
  [[nodiscard]] std::span<const TokenId> tokens(std::uint32_t slot) const;

  [[nodiscard]] const Limits& limits() const { return limits_; }

 private:
  SequenceTable(std::byte* data, const Limits& limits);

  std::byte* data_ = nullptr;
  Limits limits_;
  std::size_t row_bytes_ = 0;
};

}  // namespace phalanx::model
