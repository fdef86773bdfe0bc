// SPDX-License-Identifier: Apache-2.0
#include "phalanx/loadgen/arrival.h"

#include <cmath>
#include <random>

#include "phalanx/base/check.h"

namespace phalanx::loadgen {

std::vector<Duration> arrival_times(const ArrivalOptions& options) {
  PHALANX_CHECK(options.request_rate > 0.0 && options.burstiness > 0.0, "rates must be positive");
  std::vector<Duration> times(options.count, Duration::zero());
  if (std::isinf(options.request_rate)) {
    return times;
  }
  std::mt19937_64 random(options.seed);
  std::gamma_distribution<double> gap(options.burstiness,
                                      1.0 / (options.request_rate * options.burstiness));
  std::vector<double> seconds(options.count);
  double last = 0.0;
  for (double& second : seconds) {
    last += gap(random);
    second = last;
  }
  const double wanted = static_cast<double>(options.count) / options.request_rate;
  const double scale = last > 0.0 ? wanted / last : 0.0;
  for (std::size_t i = 0; i < options.count; ++i) {
    times[i] = from_seconds(seconds[i] * scale);
  }
  return times;
}

}  // namespace phalanx::loadgen
