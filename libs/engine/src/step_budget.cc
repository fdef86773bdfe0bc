// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/step_budget.h"

#include <algorithm>
#include <chrono>

namespace phalanx::engine {
namespace {

constexpr double kAim = 0.9;          // of the limit, for durations scatter
constexpr double kMaxSurprise = 1.5;  // times what was expected: so much of a duration counts
constexpr double kHarmless = 0.25;    // of the limit: the fixed part is believed up to there
constexpr double kFixedGain = 0.25;
constexpr double kRowGain = 0.5;
constexpr double kFewRows = 16.0;  // so many say half as much about the time of a row
constexpr double kFade = 0.875;    // of what was measured lately, with each step that has prompts

}  // namespace

StepWork StepWork::prefill(std::uint32_t start, std::uint32_t count) {
  const std::uint64_t rows = count;
  return {.prefill_rows = count, .context = rows * start + rows * (rows + 1) / 2};
}

StepWork StepWork::decode(std::uint32_t start) {
  return {.decode_rows = 1, .context = std::uint64_t{start} + 1};
}

StepWork& StepWork::operator+=(const StepWork& other) {
  prefill_rows += other.prefill_rows;
  decode_rows += other.decode_rows;
  context += other.context;
  return *this;
}

StepWork& StepWork::operator-=(const StepWork& other) {
  prefill_rows -= other.prefill_rows;
  decode_rows -= other.decode_rows;
  context -= other.context;
  return *this;
}

StepBudget::StepBudget(Duration limit, double row_reads)
    : limit_ms_(to_milliseconds(limit)), row_reads_(row_reads) {}

void StepBudget::confirmed(const StepWork& work, Duration took) {
  const double ms = to_milliseconds(took);
  if (work.prefill_rows == 0) {
    learn_fixed(work, ms);
  } else {
    learn_row(work, ms);
    recent_rows_ = std::max(static_cast<double>(work.prefill_rows), kFade * recent_rows_);
  }
}

void StepBudget::learn_fixed(const StepWork& work, double ms) {
  const double expected = expected_ms(work);
  double fixed = ms - expected;
  if (fixed_ms_) {
    const double most = std::max(kMaxSurprise * expected, kHarmless * limit_ms_);
    fixed = *fixed_ms_ + kFixedGain * (std::min(ms, most) - expected);
  }
  if (fixed < 0.0) {
    // No fixed part is that short: rows are cheaper than they were when they were measured, as in a
    // first step over memory that was not there yet.
    row_ms_ = std::max(row_ms_ + fixed / rows_of(work), 0.0);
  }
  fixed_ms_ = std::max(fixed, 0.0);
}

void StepBudget::learn_row(const StepWork& work, double ms) {
  const double rows = rows_of(work);
  const double fixed = fixed_ms_.value_or(0.0);
  const bool far_more = work.prefill_rows > measured_rows_ + measured_rows_ / 2;
  measured_rows_ = std::max(measured_rows_, work.prefill_rows);
  if (ms < fixed) {
    // Whatever else a step does, it does the fixed part: that has become shorter, and was not
    // measured alone since. Taken for cheaper rows it would be wrong for any other number of them.
    fixed_ms_ = std::max(ms - row_ms_ * rows, 0.0);
  } else if (far_more || row_ms_ <= 0.0) {
    row_ms_ = (ms - fixed) / rows;
  } else {
    const double expected = expected_ms(work);
    const double error = std::min(ms, kMaxSurprise * expected) - expected;
    row_ms_ =
        std::max(row_ms_ + kRowGain * error * rows / (rows * rows + kFewRows * kFewRows), 0.0);
  }
}

double StepBudget::rows_of(const StepWork& work) const {
  return static_cast<double>(work.prefill_rows) + static_cast<double>(work.decode_rows) +
         static_cast<double>(work.context) / row_reads_;
}

double StepBudget::expected_ms(const StepWork& work) const {
  return fixed_ms_.value_or(0.0) + row_ms_ * rows_of(work);
}

Duration StepBudget::expected(const StepWork& work) const {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double, std::milli>(expected_ms(work)));
}

std::uint32_t StepBudget::prefill_rows(const StepWork& planned, std::uint32_t start) const {
  if (limit_ms_ <= 0.0 || planned.decode_rows == 0) {
    return kUnlimited;
  }
  const auto most = std::max(static_cast<std::uint32_t>(2.0 * recent_rows_), kBlockRows);
  std::uint32_t rows = 0;
  for (std::uint32_t total = (planned.prefill_rows / kBlockRows + 1) * kBlockRows; total <= most;
       total += kBlockRows) {
    StepWork work = planned;
    work += StepWork::prefill(start, total - planned.prefill_rows);
    if (total > kBlockRows && expected_ms(work) > kAim * limit_ms_) {
      break;
    }
    rows = total - planned.prefill_rows;
  }
  return rows;
}

}  // namespace phalanx::engine
