// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/rank_group.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/obs/log.h"
#include "phalanx/wire/codec.h"

#include "bounded_text.h"
#include "group_log.h"
#include "mutation.h"

namespace phalanx::engine {
namespace {

StepFault fault_of(RankId rank, RankFailure::Kind kind, Error error) {
  StepFault fault;
  fault.ranks.push_back({rank, kind, std::move(error)});
  return fault;
}

}  // namespace

RankGroup::RankGroup(const GroupOptions& options,
                     GroupPort& port,
                     GroupClient& client,
                     const Clock& clock)
    : options_(options),
      port_(port),
      client_(client),
      clock_(clock),
      watch_(options.progress, options.ranks),
      slots_(options.ranks),
      status_(options.ranks) {
  PHALANX_CHECK(options.ranks > 0, "a group has ranks");
}

RankGroup::~RankGroup() {
  forget_steps();
  doom_all();
}

void RankGroup::start() {
  PHALANX_CHECK(state_ == State::kNew, "a group starts once");
  forming_since_ = clock_.now();
  form();
  advance();
}

void RankGroup::run(wire::RankCommand command) {
  PHALANX_CHECK(ready(), "a step needs a ready group");
  state_ = State::kStepping;
  begin_numbered(wire::RankOp::kStep, std::move(command));
  advance();
}

void RankGroup::stop() {
  if (std::exchange(stop_wanted_, true) || state_ == State::kFailed) {
    return;
  }
  if (state_ == State::kReady) {
    state_ = State::kStopping;
    begin_numbered(wire::RankOp::kShutdown);
  } else if (step_ && command_.op == wire::RankOp::kPing) {
    return;  // answered in a moment; then the ranks are asked to leave
  } else if (state_ == State::kStepping && step_) {
    step_->fail_own(Error(Code::kCancelled, "the replica stops"));
  } else {
    state_ = State::kStopping;
    forget_steps();
    doom_all();
    end_if_empty();
  }
  advance();
}

wire::Sent RankGroup::send(RankId rank, std::string_view frame) {
  return port_.send(rank, frame);
}

void RankGroup::raise_abort() {
  port_.raise_abort();
}

void RankGroup::kill(RankId rank) {
  doom(rank);
}

// ---- operations

// Forming has no number of its own: it prepares this step.
StepId RankGroup::upcoming() const {
  return repeat_ ? repeat_->step : StepId(next_step_);
}

StepLimits RankGroup::limits_for(wire::RankOp op) const {
  if (options_.patient) {
    constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
    return {kNever, kNever, options_.patient_grace_ticks};
  }
  const ProgressOptions& progress = watch_.options();
  const std::uint32_t patience = watch_.patience();
  switch (op) {
    case wire::RankOp::kHello:
      return {progress.start_ticks, progress.start_ticks, progress.grace_ticks};
    case wire::RankOp::kStep:
    case wire::RankOp::kPing:
    case wire::RankOp::kShutdown:
      return {patience, patience, progress.grace_ticks};
    default:
      return {patience, std::max(patience, progress.form_ticks), progress.grace_ticks};
  }
}

std::unique_ptr<CollectiveStep> RankGroup::ask(wire::RankOp op, wire::RankCommand* command) {
  command->epoch = epoch_;
  command->op = op;
  RankPort& ranks = *this;
  return std::make_unique<CollectiveStep>(ranks,
                                          StepIdentity{epoch_, command->step, op},
                                          wire::encode(*command),
                                          options_.ranks,
                                          limits_for(op),
                                          clock_.now());
}

void RankGroup::begin(wire::RankOp op, wire::RankCommand command) {
  command_ = std::move(command);
  idle_ticks_ = 0;
  own_death_ = false;
  stop_seen_ = false;
  settled_ = false;
  step_ = ask(op, &command_);
}

void RankGroup::begin_numbered(wire::RankOp op, wire::RankCommand command) {
  command.step = StepId(next_step_++);
  begin(op, std::move(command));
}

void RankGroup::run_ahead(wire::RankCommand command) {
  PHALANX_CHECK(takes_ahead(), "a step is sent ahead of nothing");
  // Its results must not fall on those of the step in flight.
  if ((next_step_ - command_.step.value()) % step::kResultRingSteps == 0) {
    ++next_step_;
  }
  command.step = StepId(next_step_++);
  ahead_command_ = std::move(command);
  ahead_ = ask(wire::RankOp::kStep, &ahead_command_);
  advance();
}

bool RankGroup::takes_ahead() const {
  return state_ == State::kStepping && step_ && command_.op == wire::RankOp::kStep &&
         !step_->aborting() && !ahead_ && !late_ && !stop_wanted_;
}

std::vector<CollectiveStep*> RankGroup::in_flight() const {
  std::vector<CollectiveStep*> steps{step_.get(), ahead_.get()};
  std::erase(steps, nullptr);
  return steps;
}

bool RankGroup::aborting() const {
  const std::vector<CollectiveStep*> steps = in_flight();
  return std::any_of(
      steps.begin(), steps.end(), [](const CollectiveStep* step) { return step->aborting(); });
}

void RankGroup::forget_steps() {
  step_.reset();
  ahead_.reset();
}

void RankGroup::advance() {
  if (std::exchange(advancing_, true)) {
    return;  // a client that runs the next step from within; the loop below goes on with it
  }
  while (step_ && step_->done()) {
    settle();
    if (!drained()) {
      break;
    }
    const std::unique_ptr<CollectiveStep> step = std::move(step_);
    if (step->ok()) {
      op_done(*step);
    } else {
      op_failed(*step);
    }
  }
  advancing_ = false;
}

// Reads what a step that all ranks have done has given. It may turn out to have failed.
void RankGroup::settle() {
  if (!step_->ok() || command_.op != wire::RankOp::kStep || std::exchange(settled_, true)) {
    return;
  }
  Result<std::uint64_t> expected = client_.settle(command_);
  if (expected) {
    step_->verify_state(*expected);
  } else {
    step_->fail_own(std::move(expected).error());
  }
}

// The step behind one that failed cannot be done any more, and is waited for as well: some of its
// ranks may have begun it.
bool RankGroup::drained() {
  if (step_->ok() || !ahead_) {
    return true;
  }
  ahead_->fail_own(aborted("the step before it failed"));
  return ahead_->done();
}

// Of a failed operation and of the step behind it. What failed there may be why it failed: the
// abort word of both is one.
StepFault RankGroup::take_fault(const CollectiveStep& step) {
  StepFault fault = step.fault();
  if (const auto ahead = std::exchange(ahead_, nullptr)) {
    fault.add_behind(ahead->fault());
  }
  return fault;
}

void RankGroup::op_done(CollectiveStep& step) {
  watch_.saw_gap(step.longest_gap());
  log_rank_times(step, options_.ranks);
  if (late_ && step.identity().op != wire::RankOp::kStep) {
    recover(*std::exchange(late_, std::nullopt));
    return;
  }
  switch (step.identity().op) {
    case wire::RankOp::kHello:
      hello_done(step);
      break;
    case wire::RankOp::kInit:
      begin_forming(wire::RankOp::kSanity);
      break;
    case wire::RankOp::kSanity:
      attach();
      break;
    case wire::RankOp::kAttach:
      attach_done(step);
      break;
    case wire::RankOp::kClear:
      kv_lost_ = false;
      attached();
      break;
    case wire::RankOp::kStep:
      step_done(step);
      break;
    case wire::RankOp::kPing:
      become_idle();
      break;
    case wire::RankOp::kShutdown:
    case wire::RankOp::kUnload:
      reap_ticks_ = 0;
      end_if_empty();
      break;
  }
}

void RankGroup::op_failed(const CollectiveStep& step) {
  ++drains_;
  const StepFault fault = take_fault(step);
  log_drain(step, fault, options_.ranks);
  if (state_ == State::kStopping || stop_wanted_) {
    leave_after(step, fault);
    return;
  }
  if (step.identity().op == wire::RankOp::kStep && was_ready_) {
    if (kMutation == Mutation::kNoRollback) {
      state_ = State::kForming;
      client_.on_step(command_, step);
    } else {
      repeat_ = command_;
    }
    recover(fault, true);
    return;
  }
  recover(fault);
}

// The ranks are to go anyway. One that left before its farewell was read is no reason to kill the
// others; only those that were not asked, or refused, do not leave by themselves.
void RankGroup::leave_after(const CollectiveStep& step, const StepFault& fault) {
  state_ = State::kStopping;
  reap_ticks_ = 0;
  if (step.identity().op != wire::RankOp::kShutdown) {
    doom_all();
  }
  for (const RankId rank : fault.never_asked) {
    doom(rank);
  }
  for (const RankFailure& failure : fault.ranks) {
    if (failure.kind == RankFailure::Kind::kReply ||
        failure.kind == RankFailure::Kind::kSuspected) {
      doom(failure.rank);
    }
  }
  end_if_empty();
}

// ---- steps

void RankGroup::step_done(const CollectiveStep& step) {
  last_done_ = command_.step;
  repeat_.reset();
  for (std::uint32_t i = 0; i < options_.ranks; ++i) {
    status_[i].preparations = step.reply(RankId(i))->preparations;
    status_[i].allocations = step.reply(RankId(i))->allocations;
  }
  if (!was_ready_) {
    become_ready();
    return;
  }
  const wire::RankCommand command = std::move(command_);
  if (ahead_) {
    command_ = std::move(ahead_command_);
    step_ = std::move(ahead_);
    settled_ = false;
    state_ = State::kStepping;
  } else {
    state_ = late_ || stop_wanted_ ? State::kForming : State::kReady;
  }
  client_.on_step(command, step);
  if (state_ == State::kForming) {
    become_idle();
  }
}

// After an operation that leaves nothing to do: what had to wait for it comes first.
void RankGroup::become_idle() {
  if (stop_wanted_) {
    state_ = State::kStopping;
    begin_numbered(wire::RankOp::kShutdown);
  } else if (late_) {
    recover(*std::exchange(late_, std::nullopt));
  } else {
    state_ = State::kReady;
    client_.on_idle();
  }
}

// ---- events

void RankGroup::on_reply(RankId rank, const wire::RankReply& reply) {
  const auto takes = [&](const std::unique_ptr<CollectiveStep>& step) {
    return step && step->on_reply(rank, reply, clock_.now());
  };
  if (!takes(step_) && !takes(ahead_)) {
    ++stale_replies_;
    log_stale(rank, reply);
  }
  advance();
}

void RankGroup::on_death(RankId rank, const RankDeath& death) {
  Slot& slot = slots_[rank.value()];
  const bool expected = slot.doomed || state_ == State::kStopping || state_ == State::kFailed;
  slot = Slot{};
  wire::RankStatus& status = status_[rank.value()];
  status.state = wire::RankState::kDead;
  kv_lost_ = kv_lost_ || !kv_survives(death);
  own_death_ = own_death_ || death.origin == DeathOrigin::kOwn;
  stop_seen_ = stop_seen_ || death.origin == DeathOrigin::kStopped;
  obs::log_debug("rank_gone",
                 {{"tp", rank.value()},
                  {"expected", expected},
                  {"kv", kv_survives(death) ? "kept" : "dropped"}});
  if (!expected) {
    status.last_error = bounded_text(death.description);
  }
  for (CollectiveStep* const step : in_flight()) {
    step->on_death(rank, death);
  }
  if (step_ && !aborting() && state_ != State::kStopping) {
    if (!late_) {
      late_.emplace();
    }
    late_->ranks.push_back({rank,
                            RankFailure::Kind::kDeath,
                            unavailable("it died after it had answered: " + death.description)});
  } else if (state_ == State::kReady) {
    recover(
        fault_of(rank, RankFailure::Kind::kDeath, unavailable("it died: " + death.description)));
  } else if (state_ == State::kReaping && !any(&Slot::doomed)) {
    reaped();
  }
  advance();
  end_if_empty();
}

void RankGroup::on_lifeline_free(RankId rank) {
  if (kMutation != Mutation::kNoLifeline) {
    // Where nobody waits for it, its death comes by itself and tells more.
    static_cast<void>(distrust(rank, unavailable("it is dying: its lifeline is free")));
  }
}

void RankGroup::on_stopped_by_signal(RankId rank) {
  stop_seen_ = true;
  const Error error = unavailable("it was stopped by a signal");
  if (!distrust(rank, error)) {
    // It owes nothing, so no step will miss it; but it would not answer the next one either.
    status_[rank.value()].last_error = bounded_text(error.to_string());
    doom(rank);
  }
}

bool RankGroup::distrust(RankId rank, Error error) {
  const Slot& slot = slots_[rank.value()];
  if (!slot.alive || slot.doomed || state_ == State::kStopping) {
    return true;
  }
  if (step_) {
    const std::vector<CollectiveStep*> steps = in_flight();
    if (std::none_of(steps.begin(), steps.end(), [&](CollectiveStep* step) {
          return step->suspect(rank, error);
        })) {
      return false;
    }
  } else if (state_ == State::kReady) {
    recover(fault_of(rank, RankFailure::Kind::kDeath, std::move(error)));
  } else {
    return false;
  }
  advance();
  return true;
}

void RankGroup::on_writable(RankId rank) {
  for (CollectiveStep* const step : in_flight()) {
    step->on_writable(rank);
  }
  advance();
}

void RankGroup::on_tick() {
  std::vector<std::uint64_t> words(options_.ranks);
  for (std::uint32_t i = 0; i < options_.ranks; ++i) {
    words[i] = port_.progress(RankId(i));
  }
  const ProgressTick tick = watch_.tick(clock_.now(), words);
  if (step_) {
    step_->on_tick(tick);
    // The one behind it makes no progress of its own before it is begun.
    if (ahead_ && (ahead_->aborting() || step_->done())) {
      ahead_->on_tick(tick);
    }
  } else if (tick.counted) {
    tick_without_step();
  }
  advance();
}

void RankGroup::tick_without_step() {
  switch (state_) {
    case State::kReady:
      if (options_.ping_ticks != 0 && ++idle_ticks_ >= options_.ping_ticks) {
        state_ = State::kStepping;
        begin_numbered(wire::RankOp::kPing);
      }
      break;
    case State::kReaping:
      if (++reap_ticks_ >= options_.reap_ticks) {
        fail(deadline_exceeded("a rank was killed and is not gone"));
      }
      break;
    case State::kStopping:
    case State::kFailed:
      if (++reap_ticks_ == options_.reap_ticks) {
        doom_all();
      } else if (reap_ticks_ >= 2 * options_.reap_ticks && !ended_) {
        ended_ = true;
        client_.on_stopped();
      }
      break;
    default:
      break;
  }
}

}  // namespace phalanx::engine
