// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/circuit_breaker.h"

namespace phalanx::dispatch {

bool CircuitBreaker::allows(SteadyTime now) const {
  return !opened_ || (now >= open_until_ && !probing_);
}

void CircuitBreaker::on_dispatch(SteadyTime now) {
  if (opened_ && now >= open_until_) {
    probing_ = true;
  }
}

void CircuitBreaker::on_success() {
  reset();
}

void CircuitBreaker::on_failure(SteadyTime now) {
  ++failures_;
  if (opened_ || failures_ >= options_.failures_to_open) {
    opened_ = true;
    probing_ = false;
    open_until_ = now + options_.open_for;
  }
}

void CircuitBreaker::reset() {
  failures_ = 0;
  opened_ = false;
  probing_ = false;
}

}  // namespace phalanx::dispatch
