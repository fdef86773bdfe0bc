// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/engine/model_runner.h"
#include "phalanx/engine/sequence.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"

namespace phalanx::testing {

// The KV memory of one rank slot: one word for each token place. It outlives the rank, as a memfd
// does.
struct CellMemory {
  explicit CellMemory(std::uint32_t blocks) : cells(std::size_t{blocks} * step::kBlockTokens, 0) {}
  std::vector<std::uint64_t> cells;
};

// A model that is as easily upset as a real one: the KV of a position is a hash chained over the
// KV before it, read back from the memory, and the token drawn depends on the last of it. A block
// that was reused too early, a position that was not computed, a stale token: each gives another
// token than reference_token().
//
// In place of waiting it is told, before each call, whether the group lets it finish.
class CellRunner final : public engine::ModelRunner {
 public:
  CellRunner(CellMemory& memory, std::uint32_t vocab_size)
      : memory_(memory), vocab_size_(vocab_size) {}

  // The next call ends like this; with `rows_written` a step computes only so many of its items.
  void let_next(Status outcome, std::uint32_t rows_written = 0xFFFFFFFF) {
    outcome_ = std::move(outcome);
    rows_written_ = rows_written;
  }

  [[nodiscard]] Result<engine::RunnerIdentity> identity() override;
  [[nodiscard]] Status init(Epoch epoch) override;
  [[nodiscard]] Status sanity() override { return take_outcome(); }
  [[nodiscard]] Status step(const step::SequenceTable& table,
                            std::span<const step::StepItem> items,
                            std::span<step::SampleResult> results) override;
  [[nodiscard]] Status clear(bool zero_kv) override;
  [[nodiscard]] engine::RunnerCounters counters() const override { return counters_; }

  engine::RunnerIdentity identity_value;

  // Sequences of this seed have a fault of their own once they are this long.
  static constexpr std::uint64_t kFaultySeed = 0xBAD;
  static constexpr std::uint32_t kFaultyLength = 24;

 private:
  [[nodiscard]] Status take_outcome();
  void compute(std::span<const TokenId> tokens,
               std::span<const std::uint32_t> blocks,
               const step::StepItem& item);

  CellMemory& memory_;
  std::uint32_t vocab_size_;
  Status outcome_;
  std::uint32_t rows_written_ = 0xFFFFFFFF;
  engine::RunnerCounters counters_;
};

// The token that follows `tokens` when everything is right.
[[nodiscard]] TokenId reference_token(std::span<const TokenId> tokens,
                                      std::uint64_t seed,
                                      std::uint32_t choice,
                                      std::uint32_t vocab_size);

}  // namespace phalanx::testing
