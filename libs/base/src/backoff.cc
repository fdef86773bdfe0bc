// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/backoff.h"

#include <algorithm>

#include "phalanx/base/hash.h"

namespace phalanx {

Backoff::Backoff(BackoffOptions options, std::uint64_t seed) : options_(options), state_(seed) {}

Duration Backoff::next() {
  constexpr int kMaxDoublings = 30;
  const double base = static_cast<double>(options_.first.count()) *
                      static_cast<double>(1ULL << std::min(failures_, kMaxDoublings));
  const double capped = std::min(base, static_cast<double>(options_.cap.count()));
  ++failures_;
  state_ = mix64(state_ + 0x9E3779B97F4A7C15ULL);
  const double unit = static_cast<double>(state_ >> 11) * 0x1.0p-53;
  const double factor = 1.0 + options_.jitter * (2.0 * unit - 1.0);
  return Duration(static_cast<Duration::rep>(capped * factor));
}

}  // namespace phalanx
