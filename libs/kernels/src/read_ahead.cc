// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/read_ahead.h"

#include <algorithm>

namespace phalanx::kernels {

void ReadAhead::begin(const void* round) {
  if (round == round_) {
    return;
  }
  if (listed_ != 0 && passed_ != 0) {
    last_ = passed_;
  }
  round_ = round;
  count_ = 0;
  next_ = 0;
  listed_ = 0;
  left_ = 0;
  passed_ = 0;
}

void ReadAhead::add(const std::byte* first, std::size_t bytes) {
  const std::size_t lines = std::min((bytes + 63) / 64, kMaxLines - listed_);
  if (lines == 0) {
    return;
  }
  Lines* last = count_ > next_ ? &runs_[count_ - 1] : nullptr;
  if (last != nullptr && last->first + last->count * 64 == first) {
    last->count += lines;
  } else if (count_ < kMaxRuns) {
    runs_[count_] = {first, lines};
    ++count_;
  } else {
    return;
  }
  listed_ += lines;
  left_ += lines;
}

ReadAhead::Lines ReadAhead::take(std::size_t weights, std::size_t most) {
  const std::size_t to_come = std::max(last_, passed_ + weights) - passed_;
  passed_ += weights;
  if (next_ == count_) {
    return {};
  }
  Lines& run = runs_[next_];
  const std::size_t share = (left_ * weights + to_come - 1) / to_come;
  const Lines taken{run.first, std::min({share, most, run.count})};
  run.first += taken.count * 64;
  run.count -= taken.count;
  left_ -= taken.count;
  if (run.count == 0) {
    ++next_;
  }
  return taken;
}

}  // namespace phalanx::kernels
