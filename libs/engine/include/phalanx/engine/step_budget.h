// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "phalanx/base/clock.h"

namespace phalanx::engine {

// What the duration of a step depends on. A prompt is prefill, a row that only draws the next token
// of a running sequence is a decode row.
struct StepWork {
  std::uint32_t prefill_rows = 0;
  std::uint32_t decode_rows = 0;
  std::uint64_t context = 0;  // positions that the rows read, summed over the rows

  // Of the rows at positions [start, start + count) of one sequence, and of the row at `start`.
  [[nodiscard]] static StepWork prefill(std::uint32_t start, std::uint32_t count);
  [[nodiscard]] static StepWork decode(std::uint32_t start);

  StepWork& operator+=(const StepWork& other);
  StepWork& operator-=(const StepWork& other);
  friend bool operator==(const StepWork&, const StepWork&) = default;
};

// How many rows of prompts a step may carry beside decodes without lasting longer than a limit,
// learnt from the durations of steps. A value: it has no clock, and equal histories give equal
// answers.
//
// It expects a step to take a fixed time, and so much for each row; what rows read is counted in
// rows, too. A step without prompts teaches the fixed time, one with prompts that of a row. Each
// moves the estimate a part of the way, and counts for at most half more than was expected: one
// stall costs a fifth of the budget for a few steps, while a machine that has become slower is
// followed within some. Only a step of far more rows than were ever measured is believed as it is.
//
// The limit holds for steps in which somebody decodes. In others nobody is held up within an
// answer: whoever arrives meanwhile waits for the end of one step, and shorter ones would slow the
// prompts.
//
// Threads: one.
class StepBudget {
 public:
  // Rows that always go on, so that prompts end whatever the limit; more are given in multiples of
  // it.
  static constexpr std::uint32_t kBlockRows = 32;
  static constexpr std::uint32_t kUnlimited = UINT32_MAX;

  // A limit of zero is none. Reading `row_reads` positions takes a row about as long as all else
  // that is done for it; what is learnt makes up for an error in that as far as prompts are alike.
  StepBudget(Duration limit, double row_reads);

  // A step of `work` took so long. Not to be told of a step that did anything else meanwhile, as
  // recovering from a fault.
  void confirmed(const StepWork& work, Duration took);

  // How many rows of a prompt that goes on at `start` fit into a step that has `planned` already.
  // With them the prompts of the step have whole blocks; at least one, however long it takes, and
  // at most twice what was measured lately. kUnlimited without limit and where nothing decodes.
  [[nodiscard]] std::uint32_t prefill_rows(const StepWork& planned, std::uint32_t start) const;

  // What such a step is expected to take.
  [[nodiscard]] Duration expected(const StepWork& work) const;

 private:
  [[nodiscard]] double rows_of(const StepWork& work) const;
  [[nodiscard]] double expected_ms(const StepWork& work) const;
  void learn_fixed(const StepWork& work, double ms);
  void learn_row(const StepWork& work, double ms);

  double limit_ms_;
  double row_reads_;
  std::optional<double> fixed_ms_;
  double row_ms_ = 0.0;
  std::uint32_t measured_rows_ = 0;  // most rows of prompts in a step, ever …
  double recent_rows_ = 0.0;         // … and lately
};

}  // namespace phalanx::engine
