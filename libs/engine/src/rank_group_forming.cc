// SPDX-License-Identifier: Apache-2.0
// Forming and re-forming a rank group: what happens between a fault and the next step.
#include <algorithm>
#include <string>
#include <utility>

#include "phalanx/engine/rank_group.h"
#include "phalanx/obs/log.h"
#include "phalanx/wire/error_text.h"

#include "mutation.h"

namespace phalanx::engine {
namespace {

std::string named(RankId rank) {
  return "rank " + std::to_string(rank.value());
}

}  // namespace

// ---- forming

bool RankGroup::forming() const {
  return state_ == State::kReaping || state_ == State::kForming;
}

void RankGroup::form() {
  state_ = State::kForming;
  late_.reset();
  for (std::uint32_t i = 0; i < options_.ranks; ++i) {
    if (const Status status = respawn(RankId(i)); !status) {
      cannot_start(Error(status.error()).with(named(RankId(i)) + " could not be started"));
      return;
    }
  }
  set_states(was_ready_ ? wire::RankState::kRecovering : wire::RankState::kStarting);
  if (kMutation != Mutation::kNoNewEpoch || epoch_.value() == 0) {
    epoch_ = Epoch(epoch_.value() + 1);
  }
  begin_forming(wire::RankOp::kHello);
}

// What is lacking now may be there in a moment, and what the ranks have computed is worth one.
void RankGroup::cannot_start(const Error& cause) {
  if (!was_ready_ || cause.code() != Code::kResourceExhausted) {
    fail(cause);
    return;
  }
  obs::log_warn("rank_not_started", {{"error", cause.to_string()}});
  wait_out(cause);
}

void RankGroup::wait_out(const Error& shortage) {
  if (shortages_ >= options_.shortage_limit) {
    fail(resource_exhausted(std::to_string(shortages_) +
                            " pauses did not end a shortage; the last: " + shortage.message()));
    return;
  }
  ++shortages_;
  state_ = State::kReaping;
  reap_ticks_ = 0;
  pause_periods_ = options_.shortage_periods;
  client_.on_fault(StepFault::of_replica(shortage));
}

Status RankGroup::respawn(RankId rank) {
  Slot& slot = slots_[rank.value()];
  if (slot.alive) {
    return ok();
  }
  wire::RankStatus& status = status_[rank.value()];
  const Incarnation next(status.incarnation.value() + 1);
  PHALANX_RETURN_IF_ERROR(port_.respawn(rank, next));
  status.incarnation = next;
  status.restarts = next.value() - 1;
  slot = Slot{true, false};
  obs::log_info("rank_spawned", {{"tp", rank.value()}, {"incarnation", next.value()}});
  return ok();
}

void RankGroup::begin_forming(wire::RankOp op, wire::RankCommand command) {
  command.step = upcoming();
  begin(op, std::move(command));
}

void RankGroup::hello_done(CollectiveStep& step) {
  if (Status status = check_hello(step); !status) {
    recover(StepFault::of_replica(std::move(status).error()));
    return;
  }
  if (Status status = port_.new_segment(epoch_); !status) {
    // A rank may have gone since its hello: that is a fault like any other.
    recover(StepFault::of_replica(
        std::move(status).error().with("the communicator could not be handed over")));
    return;
  }
  begin_forming(wire::RankOp::kInit);
}

Status RankGroup::check_hello(const CollectiveStep& step) {
  const wire::RankReply& first = *step.reply(RankId(0));
  const std::uint64_t fingerprint = was_ready_ ? fingerprint_ : first.numerics_fingerprint;
  for (std::uint32_t i = 0; i < options_.ranks; ++i) {
    const wire::RankReply& reply = *step.reply(RankId(i));
    if (reply.secret != options_.secret) {
      return failed_precondition(named(RankId(i)) + " does not know the secret of this boot");
    }
    if (reply.callables_hash != first.callables_hash) {
      return data_loss(named(RankId(i)) + " has another table of tasks than rank 0");
    }
    if (reply.numerics_fingerprint != fingerprint) {
      return data_loss(named(RankId(i)) + " computes with another numerics fingerprint");
    }
    status_[i].pid = reply.pid;
  }
  fingerprint_ = fingerprint;
  return ok();
}

void RankGroup::attach() {
  if (kv_lost_) {
    repeat_.reset();
  }
  GroupClient::Attachment attachment = client_.attachment(kv_lost_);
  attach_hash_ = attachment.hash;
  wire::RankCommand command;
  command.attach = std::move(attachment.table);
  begin_forming(wire::RankOp::kAttach, std::move(command));
}

void RankGroup::attach_done(CollectiveStep& step) {
  step.verify_state(attach_hash_);
  if (!step.ok()) {
    op_failed(step);
    return;
  }
  if (kv_lost_) {
    wire::RankCommand command;
    command.zero_kv = true;
    begin_numbered(wire::RankOp::kClear, std::move(command));
    return;
  }
  attached();
}

void RankGroup::attached() {
  if (was_ready_) {
    become_ready();
  } else {
    begin_numbered(wire::RankOp::kStep, client_.self_test());
  }
}

void RankGroup::become_ready() {
  set_states(wire::RankState::kReady);
  was_ready_ = true;
  obs::log_info("group_ready",
                {{"epoch", epoch_.value()},
                 {"formed_in_ms", to_milliseconds(clock_.now() - forming_since_)},
                 {"repeats_step", repeat_.has_value()}});
  if (late_) {
    recover(*std::exchange(late_, std::nullopt));
    return;
  }
  if (stop_wanted_) {
    become_idle();
    return;
  }
  if (repeat_ && !client_.revise(&*repeat_)) {
    repeat_.reset();
  }
  if (!repeat_) {
    shortages_ = 0;
  }
  state_ = repeat_ ? State::kStepping : State::kReady;
  client_.on_ready(epoch_);
  if (repeat_ && state_ == State::kStepping) {
    begin(wire::RankOp::kStep, *repeat_);
  }
}

// ---- faults

void RankGroup::recover(const StepFault& fault, bool of_step) {
  state_ = State::kReaping;
  reap_ticks_ = 0;
  pause_periods_ = 0;
  forming_since_ = clock_.now();
  port_.raise_abort();
  doom_failing(fault);
  for (Slot& slot : slots_) {
    slot.doomed = slot.doomed || slot.dying;  // its end belongs to this fault, and tells of what
  }
  set_states(was_ready_ ? wire::RankState::kRecovering : wire::RankState::kStarting);
  trial_ = Trial{fault, of_step};
  if (!was_ready_ || !any(&Slot::dying)) {
    tell_fault();
  }
  client_.on_fault(fault);
  if (!was_ready_) {
    trial_.reset();
    fail(fault.combined());
    return;
  }
  if (!any(&Slot::doomed)) {
    reaped();
  }
}

// Once. A rank that is dying is waited for, since its end says what it died of.
void RankGroup::tell_fault() {
  if (trial_ && !std::exchange(trial_->told, true)) {
    obs::log_warn("group_fault",
                  {{"epoch", epoch_.value()},
                   {"step", command_.step.value()},
                   {"op", name_of(command_.op)},
                   {"error", trial_->fault.combined().message()}});
  }
}

// That its lifeline was free began the fault; what it died of comes with its end.
void RankGroup::explain(RankId rank, const RankDeath& death) {
  if (!trial_) {
    return;
  }
  std::vector<RankFailure>& of_ranks = trial_->fault.ranks;
  const auto known = std::find_if(of_ranks.begin(),
                                  of_ranks.end(),
                                  [&](const RankFailure& failure) { return failure.rank == rank; });
  const RankFailure end{rank, RankFailure::Kind::kDeath, error_of(death, "it died")};
  if (known == of_ranks.end()) {
    of_ranks.insert(of_ranks.begin(), end);
  } else if (known->kind == RankFailure::Kind::kSuspected || is_consequence(*known)) {
    *known = end;
  } else {
    return;
  }
  status_[rank.value()].last_error = wire::error_text(end.error.to_string());
  client_.on_fault(trial_->fault);
}

// Only now is it known how each rank died, and so whether the step can have done it.
void RankGroup::reaped() {
  tell_fault();
  if (const std::optional<Trial> trial = std::exchange(trial_, std::nullopt)) {
    const StepFault& fault = trial->fault;
    const Error cause = fault.combined();
    const bool accused = trial->of_step && (own_death_ || (fault.own_evidence() && !stop_seen_));
    const bool lacks = shortage_ || fault.lacks_resources();
    const bool too_often = trial->of_step && shortages_ >= options_.shortage_limit;
    if (lacks && !accused && !too_often) {
      wait_out(shortage_.value_or(cause));
      return;
    }
    if (accused || lacks) {
      shortages_ = 0;
      repeat_.reset();
      client_.on_blamed(cause);
    } else {
      charge();
    }
    if (!affords(cause)) {
      return;
    }
  }
  form();
}

bool RankGroup::affords(const Error& cause) {
  const SteadyTime now = clock_.now();
  while (!faults_.empty() && now - faults_.front() > options_.restart_window) {
    faults_.pop_front();
  }
  if (faults_.size() <= options_.restart_limit) {
    return true;
  }
  fail(Error(cause).with(std::to_string(faults_.size()) + " faults within " +
                         seconds_text(options_.restart_window) + "; the last"));
  return false;
}

// A rank that failed by itself cannot be trusted to be what it was: its process is replaced, and
// after contradictory data so is what it computed. One that only answered the abort goes on.
void RankGroup::doom_failing(const StepFault& fault) {
  for (const RankFailure& failure : fault.ranks) {
    status_[failure.rank.value()].last_error = wire::error_text(failure.error.to_string());
    kv_lost_ = kv_lost_ || failure.error.code() == Code::kDataLoss;
    if (!is_consequence(failure)) {
      doom(failure.rank);
    }
  }
}

void RankGroup::doom(RankId rank) {
  Slot& slot = slots_[rank.value()];
  if (slot.alive && !slot.doomed) {
    slot.doomed = true;
    port_.kill(rank);
  }
}

void RankGroup::kill_dying() {
  for (std::uint32_t i = 0; i < options_.ranks; ++i) {
    if (slots_[i].dying) {
      port_.kill(RankId(i));
    }
  }
}

void RankGroup::doom_all() {
  for (std::uint32_t i = 0; i < options_.ranks; ++i) {
    doom(RankId(i));
  }
}

void RankGroup::fail(const Error& error) {
  tell_fault();
  state_ = State::kFailed;
  reap_ticks_ = 0;
  obs::log_error("group_failed", {{"epoch", epoch_.value()}, {"error", error.to_string()}});
  forget_steps();
  doom_all();
  client_.on_failed(error);
  end_if_empty();
}

void RankGroup::end_if_empty() {
  const bool ending = state_ == State::kStopping || state_ == State::kFailed;
  if (ending && !step_ && !ended_ && !any(&Slot::alive)) {
    ended_ = true;
    client_.on_stopped();
  }
}

bool RankGroup::any(bool Slot::*flag) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.*flag; });
}

void RankGroup::set_states(wire::RankState state) {
  for (std::uint32_t i = 0; i < options_.ranks; ++i) {
    status_[i].state = slots_[i].alive && !slots_[i].doomed ? state : wire::RankState::kDead;
  }
}

}  // namespace phalanx::engine
