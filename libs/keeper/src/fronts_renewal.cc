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

// However it has ended. What the next one in its place runs tells whether that is renewed, too.
void Fronts::end_renewal_of(std::size_t front) {
  if (renewal_ && renewal_->front == front) {
    renewal_.reset();
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
  advance_renewal();
  return ok();
}

// Spare ones first: those are to take over. One that is active only beside another one that can get
// its connections. That of the quarantine begins anew for each suspect.
std::optional<std::size_t> Fronts::next_to_renew() const {
  std::optional<std::size_t> active;
  bool has_spare = false;
  for (std::size_t front = 0; front < quarantine_front_; ++front) {
    if (host_->outdated(front) && !table_->active(front)) {
      return front;
    }
    has_spare = has_spare || table_->spare(front);
    if (host_->outdated(front) && !active) {
      active = front;
    }
  }
  return has_spare ? active : std::nullopt;
}

// When it is known which program the next one is started with.
void Fronts::advance_renewal() {
  if (draining_ || host_->on_trial() || (renewal_ && renewal_->restarting)) {
    return;
  }
  if (!renewal_) {
    const auto front = next_to_renew();
    if (!front) {
      return;
    }
    renewal_ = Renewal{*front, steady_clock().now()};
    table_->retire(*front);
    hand_on_later();
    host_->send(*front, wire::Retire{});
  }
  if (table_->count(renewal_->front) > 0 && !may_replace()) {
    return;  // the last Released or Disconnected goes on, or a tick
  }
  renewal_->restarting = true;
  host_->replace(renewal_->front);
}

// Although the front that is renewed has connections.
bool Fronts::may_replace() {
  const SteadyTime now = steady_clock().now();
  if (now - renewal_->since < kRetireTime || now - renewal_->judged < kJudgePeriod) {
    return false;
  }
  renewal_->judged = now;
  return now - renewal_->since >= kRetireMax || !would_cut(renewal_->front);
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
