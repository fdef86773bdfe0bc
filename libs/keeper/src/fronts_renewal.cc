// SPDX-License-Identifier: Apache-2.0
// How living fronts are replaced, one after the other.
#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "phalanx/keeper/fronts.h"
#include "phalanx/keeper/hand_over.h"

namespace phalanx::keeper {

namespace {

// For short answers to end with the front that began them, when it is to be replaced. Those that
// take longer go on at another one …
constexpr auto kRetireTime = std::chrono::seconds(1);

// … which is looked at each connection for so often …
constexpr auto kJudgePeriod = std::chrono::seconds(1);

// … and what nobody could go on with is waited for so long.
constexpr auto kRetireMax = std::chrono::minutes(10);

}  // namespace

// However it has ended, the next one in its place is a new one.
void Fronts::end_renewal_of(std::size_t front) {
  if (to_renew_.empty() || to_renew_.front() != front) {
    return;
  }
  to_renew_.pop_front();
  retiring_ = false;
  restarting_ = false;
  if (to_renew_.empty() && std::exchange(renew_again_, false)) {
    loop_.post([this] { renew_all(); });
  }
}

Status Fronts::renew(const std::string& program) {
  if (!accounts_) {
    return failed_precondition(
        "fronts are not replaced: on this kernel each would end its connections");
  }
  PHALANX_TRY(os::HeldProgram held,
              os::HeldProgram::open(program.empty() ? host_->program_path() : program));
  host_->use_program(std::move(held));
  renew_all();
  return ok();
}

void Fronts::renew_all() {
  renew_again_ = !to_renew_.empty();
  if (renew_again_) {
    return;
  }
  // That of the quarantine begins anew for each suspect.
  for (std::size_t front = 0; front < quarantine_front_; ++front) {
    // Spare ones first: those are to take over.
    table_->active(front) ? to_renew_.push_back(front) : to_renew_.push_front(front);
  }
  advance_renewal();
}

// Only beside another front that can get its connections, and when it is known which program the
// next one is started with.
void Fronts::advance_renewal() {
  if (to_renew_.empty() || draining_ || restarting_ || host_->on_trial()) {
    return;
  }
  const std::size_t front = to_renew_.front();
  if (!host_->ready(front)) {
    return;  // on_ready() goes on
  }
  if (!retiring_) {
    bool has_spare = false;
    for (std::size_t other = 0; other < host_->size(); ++other) {
      has_spare = has_spare || (other != front && table_->spare(other));
    }
    if (table_->active(front) && !has_spare) {
      return;
    }
    retiring_ = true;
    retired_ = steady_clock().now();
    table_->retire(front);
    hand_on_later();
    host_->send(front, wire::Retire{});
  }
  if (table_->count(front) > 0 && !may_replace(front)) {
    return;  // the last Released or Disconnected goes on, or a tick
  }
  restarting_ = true;
  host_->replace(front);
}

// Although it has connections.
bool Fronts::may_replace(std::size_t front) {
  const SteadyTime now = steady_clock().now();
  if (now - retired_ < kRetireTime || now - judged_ < kJudgePeriod) {
    return false;
  }
  judged_ = now;
  return now - retired_ >= kRetireMax || !would_cut(front);
}

// Whether a connection of the front would end with it.
bool Fronts::would_cut(std::size_t front) const {
  FrontEnd end;
  end.journal = host_->journal(front);
  std::vector<ConnectionTable::Orphan> connections = table_->connections_of(front);
  return std::any_of(connections.begin(), connections.end(), [&](auto& connection) {
    const auto account = account_of(connection.connection.id);
    return account && hand_over(connection, account, end) == Fate::kCut;
  });
}

}  // namespace phalanx::keeper
