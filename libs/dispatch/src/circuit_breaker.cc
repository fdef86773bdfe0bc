// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/circuit_breaker.h"

namespace phalanx::dispatch {

bool CircuitBreaker::allows(SteadyTime now) const {
  return !opened_ || (now >= open_until_ && !probe_);
}

void CircuitBreaker::on_dispatch(const wire::SequenceKey& key, SteadyTime now) {
  if (opened_ && now >= open_until_) {
    probe_ = key;
  }
}

void CircuitBreaker::on_progress(const wire::SequenceKey& key) {
  if (probe_ == key) {
    reset();
    failures_ = options_.failures_to_open - 1;
  }
}

void CircuitBreaker::on_token(const wire::SequenceKey& key) {
  if (probe_ == key) {
    reset();
  }
}

void CircuitBreaker::on_ended(const wire::SequenceKey& key) {
  if (probe_ == key) {
    probe_.reset();
  }
}

void CircuitBreaker::on_success() {
  reset();
}

void CircuitBreaker::on_failure(SteadyTime now) {
  ++failures_;
  if (opened_ || failures_ >= options_.failures_to_open) {
    opened_ = true;
    probe_.reset();
    open_until_ = now + options_.open_for;
  }
}

void CircuitBreaker::reset() {
  failures_ = 0;
  opened_ = false;
  probe_.reset();
}

}  // namespace phalanx::dispatch
