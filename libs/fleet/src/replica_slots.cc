// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/replica_slots.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "phalanx/obs/log.h"
#include "phalanx/supervise/tick.h"

namespace phalanx::fleet {

namespace {

// A replica sends a heartbeat every 100 to 300 ms. So many of our own
// ticks without one, and only ticks that came on time count.
constexpr std::uint32_t kMaxQuietTicks = 30;

ReplicaId id_of(std::size_t slot) {
  return ReplicaId(static_cast<std::uint32_t>(slot));
}

RollSlot::Condition condition_of(supervise::State state) {
  switch (state) {
    case supervise::State::kReady:
      return RollSlot::Condition::kReady;
    case supervise::State::kFailed:
      return RollSlot::Condition::kFailed;
    case supervise::State::kDraining:
    case supervise::State::kStopped:
      return RollSlot::Condition::kHeld;
    case supervise::State::kStarting:
    case supervise::State::kLoading:
    case supervise::State::kRecovering:
    case supervise::State::kStopping:
    case supervise::State::kBackoff:
      break;
  }
  return RollSlot::Condition::kComing;
}

// Ranks end with their replica: their pids may belong to others soon.
wire::ReplicaStatus after_loss(const wire::ReplicaStatus& status) {
  wire::ReplicaStatus result;
  for (const wire::RankStatus& rank : status.ranks) {
    wire::RankStatus dead;
    dead.state = wire::RankState::kDead;
    dead.incarnation = rank.incarnation;
    dead.restarts = rank.restarts;
    dead.last_error = rank.last_error;
    result.ranks.push_back(std::move(dead));
  }
  return result;
}

}  // namespace

ReplicaSlots::ReplicaSlots(std::size_t replicas,
                           const supervise::SupervisorOptions& options,
                           supervise::ProcessRunner& runner,
                           const ReplicaEvents& events,
                           const Clock& clock)
    : events_(events),
      clock_(clock),
      supervisor_(replicas, options, runner, *this, clock),
      slots_(replicas),
      patient_(replicas, false),
      drained_(replicas, false),
      ticks_(supervise::kTickPeriod) {}

void ReplicaSlots::be_patient_with(std::size_t slot) {
  patient_[slot] = true;
  supervisor_.be_patient_with(slot);
}

// ---- commands

Status ReplicaSlots::check(ReplicaId replica) const {
  if (replica.value() >= slots_.size()) {
    return not_found("replica " + std::to_string(replica.value()) + ": expected 0 … " +
                     std::to_string(slots_.size() - 1));
  }
  return ok();
}

void ReplicaSlots::stop_all() {
  stopping_ = true;
  rollout_.drop();
  supervisor_.stop_all();
  tell_if_stopped();
}

Status ReplicaSlots::drain(ReplicaId replica) {
  PHALANX_RETURN_IF_ERROR(check(replica));
  drained_[replica.value()] = true;
  events_.on_draining(replica, true);
  supervisor_.drain(replica.value());
  rollout_.leave_out(replica.value());
  advance_roll();
  return ok();
}

RollSlot::Condition ReplicaSlots::condition(std::size_t slot) const {
  if (drained_[slot]) {
    return RollSlot::Condition::kHeld;
  }
  const RollSlot::Condition seen = condition_of(supervisor_.status(slot).state);
  const bool ending = slots_[slot].ending;
  return seen == RollSlot::Condition::kReady && ending ? RollSlot::Condition::kComing : seen;
}

Status ReplicaSlots::check_start(ReplicaId replica) const {
  PHALANX_RETURN_IF_ERROR(check(replica));
  return stopping_ ? Status(failed_precondition("the server is stopping; no replica is started"))
                   : ok();
}

Status ReplicaSlots::resume(ReplicaId replica) {
  PHALANX_RETURN_IF_ERROR(check_start(replica));
  drained_[replica.value()] = false;
  events_.on_draining(replica, false);
  supervisor_.resume(replica.value());
  return ok();
}

Status ReplicaSlots::restart(ReplicaId replica) {
  PHALANX_RETURN_IF_ERROR(check_start(replica));
  supervisor_.restart(replica.value());
  return ok();
}

void ReplicaSlots::roll() {
  rollout_.request();
  advance_roll();
}

// Called from inside of what the supervisor tells, and again by the restart that it begins: what is
// missed then is seen at the next tick.
void ReplicaSlots::advance_roll() {
  if (!rollout_.active() || std::exchange(advancing_, true)) {
    return;
  }
  std::vector<RollSlot> seen;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    seen.push_back({slots_[i].stuck ? RollSlot::Condition::kHeld : condition(i),
                    supervisor_.status(i).incarnation});
  }
  const Rollout::Advice advice = rollout_.advance(seen);
  if (advice.restart) {
    obs::log_info("roll", {{"replica", *advice.restart}});
    supervisor_.restart(*advice.restart);
  }
  if (advice.failed) {
    const std::string cause = supervisor_.status(*advice.failed).last_error;
    obs::log_error("roll_ended", {{"replica", *advice.failed}, {"cause", cause}});
  }
  advancing_ = false;
  if (advice.ended) {
    events_.on_rolled();
  }
}

// ---- what comes from the processes

void ReplicaSlots::on_spawned(std::size_t slot, Incarnation incarnation) {
  slots_[slot] = Slot{};
  slots_[slot].incarnation = incarnation;
  events_.on_started(id_of(slot));
}

void ReplicaSlots::on_hello(std::size_t slot, Incarnation incarnation) {
  slots_[slot].proven = !slots_[slot].lost;
  supervisor_.on_progress(slot, incarnation);
}

void ReplicaSlots::on_ready(std::size_t slot,
                            Incarnation incarnation,
                            std::uint64_t numerics_fingerprint) {
  slots_[slot].numerics = numerics_fingerprint;
  slots_[slot].was_ready = true;
  slots_[slot].recovering = false;
  slots_[slot].unformed_ticks = 0;
  events_.on_alive(id_of(slot), !slots_[slot].ending);
  supervisor_.on_ready(slot, incarnation);
}

void ReplicaSlots::on_asked_to_stop(std::size_t slot) {
  slots_[slot].ending = true;
  events_.on_alive(id_of(slot), false);
}

void ReplicaSlots::on_status(std::size_t slot,
                             Incarnation incarnation,
                             const wire::ReplicaStatus& status) {
  reports_[id_of(slot)] = status;
  slots_[slot].recovering = status.recovering && slots_[slot].was_ready;
  slots_[slot].searching = status.searching;
  if (!status.recovering) {
    slots_[slot].unformed_ticks = 0;
  }
  // One that is drained, too: resumed, it is ready when its group is.
  const bool is_drained = supervisor_.status(slot).state == supervise::State::kDraining;
  if (status.recovering && (slots_[slot].serves || is_drained)) {
    supervisor_.on_recovering(slot, incarnation);
  } else {
    supervisor_.on_progress(slot, incarnation);
  }
}

void ReplicaSlots::on_failure(std::size_t slot, Incarnation incarnation, const Error& error) {
  supervisor_.on_failure(slot, incarnation, error);
}

void ReplicaSlots::on_giving_up(std::size_t slot, Incarnation incarnation, const Error& error) {
  slots_[slot].ending = true;
  slots_[slot].serves = false;
  slots_[slot].recovering = false;
  events_.on_lost(id_of(slot));
  static_cast<void>(events_.on_died(id_of(slot), false, error.message()));
  supervisor_.on_failure(slot, incarnation, error);
}

void ReplicaSlots::on_hung(std::size_t slot, Incarnation incarnation, const std::string& evidence) {
  supervisor_.on_hung(slot, incarnation, evidence);
}

void ReplicaSlots::condemn(std::size_t slot, Incarnation incarnation, const Error& why) {
  supervisor_.condemn(slot, incarnation, why);
}

void ReplicaSlots::on_lost(std::size_t slot) {
  slots_[slot].serves = false;
  slots_[slot].proven = false;
  slots_[slot].lost = true;
  slots_[slot].recovering = false;
  if (const auto report = reports_.find(id_of(slot)); report != reports_.end()) {
    report->second = after_loss(report->second);
  }
  events_.on_lost(id_of(slot));
  supervisor_.on_dying(slot, slots_[slot].incarnation);
}

supervise::Death ReplicaSlots::judge(const supervise::Death& death) {
  const Slot& slot = slots_[death.slot];
  const bool hung = slot.hung && death.origin != DeathOrigin::kStopped;
  // A replica ends so when the leader has taken nothing for long.
  const auto* const exited = std::get_if<os::Exited>(&death.reason);
  const bool by_leader =
      exited != nullptr && exited->status == error_traits(Code::kAborted).exit_status;
  const bool own =
      slot.was_ready && !slot.ending && !by_leader && (hung || death.origin == DeathOrigin::kOwn);
  supervise::Death judged = death;
  judged.excused = events_.on_died(id_of(death.slot), own, supervise::describe(death));
  return judged;
}

void ReplicaSlots::on_exit(const supervise::Death& death) {
  supervisor_.on_exit(death);
  if (supervisor_.status(death.slot).state == supervise::State::kBackoff) {
    events_.on_reaped(id_of(death.slot));
  }
}

void ReplicaSlots::on_tick() {
  const bool counts = ticks_.counts(clock_.now());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.proven && counts && !patient_[i] && ++slot.quiet_ticks == kMaxQuietTicks) {
      slot.hung = true;
      supervisor_.on_hung(
          i,
          slot.incarnation,
          "no heartbeat for " + std::to_string(kMaxQuietTicks) + " ticks of 100 ms");
    }
    if (slot.recovering && counts) {
      watch_forming(i);
    }
  }
  supervisor_.on_tick();
  advance_roll();
}

void ReplicaSlots::watch_forming(std::size_t slot) {
  const std::uint32_t ticks = ++slots_[slot].unformed_ticks;
  if (ticks == kUnformedTicks) {
    obs::log_warn("group_not_formed",
                  {{"replica", slot}, {"error", reports_[id_of(slot)].last_error}});
  }
  if (ticks >= kUnformedTicks) {
    events_.on_alive(id_of(slot), false);
    // Elsewhere a suspect would be one that nobody knows, and end another group.
    if (!slots_[slot].searching) {
      events_.on_unformed(id_of(slot));
    }
  }
}

// ---- what becomes of the slots

bool ReplicaSlots::any_may_serve() const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const RollSlot::Condition seen = condition(i);
    if (seen == RollSlot::Condition::kReady || seen == RollSlot::Condition::kComing) {
      return !stopping_;
    }
  }
  return false;
}

bool ReplicaSlots::start_is_over() const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const supervise::SlotStatus status = supervisor_.status(i);
    const bool on_its_way = condition_of(status.state) == RollSlot::Condition::kComing;
    if (on_its_way && !status.ever_ready && status.last_error.empty()) {
      return false;
    }
  }
  return true;
}

void ReplicaSlots::on_slot_ready(std::size_t slot, Incarnation) {
  if (slots_[slot].lost || slots_[slot].ending) {
    return;  // its end is on the way: what an operator resumes is its successor
  }
  supervisor_.end_first_start();
  slots_[slot].serves = true;
  events_.on_ready(id_of(slot), slots_[slot].numerics);
  if (drained_[slot]) {
    supervisor_.drain(slot);
  }
  advance_roll();
}

void ReplicaSlots::on_slot_down(std::size_t slot, Incarnation) {
  slots_[slot].serves = false;
  events_.on_down(id_of(slot));
}

void ReplicaSlots::on_slot_death(const supervise::Death& death) {
  if (stopping_) {
    return;
  }
  const auto* const exited = std::get_if<os::Exited>(&death.reason);
  const bool as_asked = exited != nullptr && exited->status == 0;  // a restart or roll
  obs::log_at(as_asked ? obs::LogLevel::kInfo : obs::LogLevel::kWarn,
              as_asked ? "replica_ended" : "replica_died",
              {{"replica", death.slot},
               {"incarnation", death.incarnation.value()},
               {"how", supervise::describe_for_log(death)}});
}

void ReplicaSlots::on_slot_failed(std::size_t slot, const Error& cause) {
  obs::log_error("replica_failed", {{"replica", slot}, {"cause", cause.message()}});
  events_.on_failed(id_of(slot), Error(cause).with("replica " + std::to_string(slot)));
  advance_roll();
}

void ReplicaSlots::on_slot_stopped(std::size_t) {
  if (stopping_) {
    tell_if_stopped();
  }
}

void ReplicaSlots::tell_if_stopped() {
  if (supervisor_.all_stopped()) {
    events_.on_stopped();
  }
}

// Its requests wait for no death that may never come.
void ReplicaSlots::on_slot_doomed(std::size_t slot) {
  on_lost(slot);
}

void ReplicaSlots::on_slot_stuck(std::size_t slot, pid_t pid) {
  obs::log_error("replica_stuck", {{"replica", slot}, {"child", pid}});
  slots_[slot].stuck = true;
  if (stopping_) {
    tell_if_stopped();  // it holds up nobody's end: it will die when it can
  }
  rollout_.leave_out(slot);
  advance_roll();
}

}  // namespace phalanx::fleet
