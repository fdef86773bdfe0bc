// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/progress_watch.h"

#include <algorithm>

#include "phalanx/base/check.h"

namespace phalanx::engine {

ProgressWatch::ProgressWatch(const ProgressOptions& options, std::uint32_t ranks)
    : options_(options), words_(ranks, 0) {}

ProgressTick ProgressWatch::tick(SteadyTime now,
                                 std::uint32_t periods,
                                 std::span<const std::uint64_t> words) {
  PHALANX_CHECK(words.size() == words_.size(), "one progress word per rank");
  ProgressTick result;
  result.moved.resize(words.size());
  for (std::size_t i = 0; i < words.size(); ++i) {
    result.moved[i] = words[i] != words_[i] ? 1 : 0;
    words_[i] = words[i];
  }
  const Duration since = now - last_;
  const Duration late = since - periods * options_.period;
  result.counted = ticked_ && late >= -options_.period / 2 && late <= options_.period / 2;
  if (ticked_ && late > options_.period / 2 && ++late_ticks_ >= options_.late_ticks) {
    late_ticks_ = 0;
    result.counted = true;
  }
  ticked_ = true;
  last_ = now;
  return result;
}

void ProgressWatch::saw_gap(std::uint32_t ticks) {
  longest_gap_ = std::max(longest_gap_, ticks);
}

std::uint32_t ProgressWatch::patience() const {
  // A start is the slowest thing there is; nothing is waited for longer than that.
  const std::uint64_t scaled = std::uint64_t{longest_gap_} * options_.gap_factor;
  const auto bounded =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(scaled, options_.start_ticks));
  return std::max(options_.min_ticks, bounded);
}

}  // namespace phalanx::engine
