// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/front_renewal.h"

#include <utility>

namespace phalanx::keeper {

FrontRenewal::FrontRenewal(const Clock& clock, std::size_t fronts, Calls calls)
    : clock_(clock), fronts_(fronts), calls_(std::move(calls)) {}

void FrontRenewal::on_gone(std::size_t front) {
  if (retiring_ && retiring_->front == front) {
    retiring_.reset();
  }
}

// Spare ones first: those are to take over. One that is active only beside another one that can get
// its connections.
std::optional<std::size_t> FrontRenewal::next() const {
  std::optional<std::size_t> active;
  bool has_spare = false;
  for (std::size_t front = 0; front < fronts_; ++front) {
    const View view = calls_.view(front);
    if (view.outdated && !view.active) {
      return front;
    }
    has_spare = has_spare || view.spare;
    if (view.outdated && !active) {
      active = front;
    }
  }
  return has_spare ? active : std::nullopt;
}

void FrontRenewal::advance() {
  if (closed_ || calls_.on_trial() || (retiring_ && retiring_->restarting)) {
    return;
  }
  if (!retiring_) {
    const auto front = next();
    if (!front) {
      return;
    }
    retiring_ = Retiring{*front, clock_.now()};
    calls_.retire(*front);
  }
  if (calls_.view(retiring_->front).connections > 0 && !may_replace()) {
    return;
  }
  retiring_->restarting = true;
  calls_.replace(retiring_->front);
}

// Although the front has connections.
bool FrontRenewal::may_replace() {
  const SteadyTime now = clock_.now();
  if (now - retiring_->since < kRetireTime || now - retiring_->judged < kJudgePeriod) {
    return false;
  }
  retiring_->judged = now;
  return now - retiring_->since >= kMaxRetireTime || !calls_.would_cut(retiring_->front);
}

}  // namespace phalanx::keeper
