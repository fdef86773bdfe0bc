// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "phalanx/base/clock.h"

namespace phalanx::loadgen {

struct ArrivalOptions {
  double request_rate = 0.0;  // requests per second; infinity = all at once
  double burstiness = 1.0;    // shape of the gamma distribution; 1 = Poisson arrivals
  std::size_t count = 0;
  std::uint64_t seed = 0;
};

// When each request is meant to be sent, from the start of the run, ascending. The gaps are drawn
// from gamma(shape = burstiness, scale = 1 / (rate · burstiness)) and scaled so that the last
// request is meant for count / rate: every seed then asks for the same rate.
//
// Requires: request_rate > 0, burstiness > 0, and that a Duration holds count / rate seconds.
[[nodiscard]] std::vector<Duration> arrival_times(const ArrivalOptions& options);

}  // namespace phalanx::loadgen
