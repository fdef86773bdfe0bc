// SPDX-License-Identifier: Apache-2.0
#include "phalanx/supervise/supervisor.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/base/hash.h"
#include "phalanx/obs/log.h"

namespace phalanx::supervise {

Supervisor::Supervisor(std::size_t slots,
                       const SupervisorOptions& options,
                       ProcessRunner& runner,
                       SupervisorListener& listener,
                       const Clock& clock)
    : options_(options), runner_(runner), listener_(listener), clock_(clock) {
  // Seeds differ, so that slots that died together do not come back together.
  const auto now = static_cast<std::uint64_t>(clock.now().time_since_epoch().count());
  for (std::size_t i = 0; i < slots; ++i) {
    slots_.emplace_back(options.restart, mix64(now + i));
    slots_.back().status.since = clock.now();
  }
}

Supervisor::~Supervisor() = default;

void Supervisor::start(std::size_t slot) {
  post(slot, Event::kStart);
}

void Supervisor::start_all() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    start(i);
  }
}

void Supervisor::drain(std::size_t slot) {
  post(slot, Event::kDrain);
}

void Supervisor::resume(std::size_t slot) {
  post(slot, Event::kResume);
}

void Supervisor::restart(std::size_t slot) {
  if (has_process(slots_.at(slot).status.state)) {
    slots_[slot].restart_wanted = true;
    post(slot, Event::kStop);
  } else {
    // Through kStopped, because kStart means nothing while a restart is scheduled.
    post(slot, Event::kStop);
    post(slot, Event::kStart);
  }
}

void Supervisor::stop(std::size_t slot) {
  slots_.at(slot).restart_wanted = false;
  post(slot, Event::kStop);
}

void Supervisor::stop_all() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    stop(i);
  }
}

void Supervisor::kill_all() {
  stop_all();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.status.state == State::kStopping && slot.phase != StopPhase::kKilled) {
      slot.phase = StopPhase::kTerminated;
      post(i, Event::kDeadline);
    }
  }
}

void Supervisor::condemn(std::size_t slot, Incarnation incarnation, const Error& why) {
  Slot* found = current(slot, incarnation);
  if (found == nullptr || found->doomed) {
    return;
  }
  if (!found->reported) {
    found->reported = why;
  }
  post(slot, Event::kHung);
}

Supervisor::Slot* Supervisor::current(std::size_t slot, Incarnation incarnation) {
  Slot& found = slots_.at(slot);
  if (found.status.incarnation != incarnation || !has_process(found.status.state)) {
    return nullptr;
  }
  return &found;
}

void Supervisor::report(std::size_t slot, Incarnation incarnation, Event event) {
  const Slot* found = current(slot, incarnation);
  if (found != nullptr && !found->doomed && !found->dying) {
    post(slot, event);
  }
}

bool Supervisor::is_final(const Slot& slot) const {
  return !lenient_ && !slot.status.ever_ready;
}

void Supervisor::on_progress(std::size_t slot, Incarnation incarnation) {
  report(slot, incarnation, Event::kProgress);
}

void Supervisor::on_ready(std::size_t slot, Incarnation incarnation) {
  if (Slot* found = current(slot, incarnation); found != nullptr) {
    found->said_ready = true;
  }
  report(slot, incarnation, Event::kReady);
}

void Supervisor::on_recovering(std::size_t slot, Incarnation incarnation) {
  if (Slot* found = current(slot, incarnation); found != nullptr) {
    found->said_ready = false;
  }
  report(slot, incarnation, Event::kRecovering);
}

void Supervisor::on_hung(std::size_t slot, Incarnation incarnation, const std::string& evidence) {
  condemn(slot, incarnation, deadline_exceeded("it hangs: " + evidence));
}

void Supervisor::on_dying(std::size_t slot, Incarnation incarnation) {
  Slot* found = current(slot, incarnation);
  if (found == nullptr || found->doomed || std::exchange(found->dying, true)) {
    return;
  }
  found->dies_by = clock_.now() + options_.death_timeout;
  if (found->status.state == State::kStopping) {
    return;  // which has its own deadlines
  }
  found->deadline = found->dies_by;
  post(slot, Event::kRecovering);
}

void Supervisor::on_failure(std::size_t slot, Incarnation incarnation, const Error& error) {
  if (Slot* found = current(slot, incarnation); found != nullptr && !found->reported) {
    found->reported = error;
  }
}

void Supervisor::on_exit(Death death) {
  Slot* slot = current(death.slot, death.incarnation);
  if (slot == nullptr) {
    return;
  }
  if (slot->reported && death.cause.empty()) {
    death.cause = slot->reported->message();
  }
  death.was_ready = slot->said_ready;
  const bool for_good = is_final(*slot);
  const Code code = slot->reported ? slot->reported->code() : Code::kUnavailable;
  slot->error = Error(code, describe(death));
  slot->death = std::move(death);
  post(slot->death.slot, for_good ? Event::kDiedForGood : Event::kDied);
}

void Supervisor::on_tick() {
  const SteadyTime now = clock_.now();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.deadline && *slot.deadline <= now) {
      slot.deadline.reset();
      post(i, slot.status.state == State::kBackoff ? Event::kBackoffOver : Event::kDeadline);
    }
  }
}

std::optional<SteadyTime> Supervisor::next_deadline() const {
  std::optional<SteadyTime> next;
  for (const Slot& slot : slots_) {
    if (slot.deadline && (!next || *slot.deadline < *next)) {
      next = slot.deadline;
    }
  }
  return next;
}

SlotStatus Supervisor::status(std::size_t slot) const {
  return slots_.at(slot).status;
}

bool Supervisor::all_stopped() const {
  return std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    const State state = slot.status.state;
    return slot.stuck || state == State::kStopped || state == State::kFailed;
  });
}

std::size_t Supervisor::failed() const {
  return static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& s) {
    return s.status.state == State::kFailed;
  }));
}

}  // namespace phalanx::supervise
