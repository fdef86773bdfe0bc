// SPDX-License-Identifier: Apache-2.0
// The operation of a rank group that is in flight, and the step that may have been sent behind it.
#include <algorithm>
#include <limits>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/engine/rank_group.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/wire/codec.h"

#include "group_log.h"
#include "mutation.h"

namespace phalanx::engine {

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
  idle_periods_ = 0;
  own_death_ = false;
  stop_seen_ = false;
  shortage_.reset();
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
         step_->reached_all() && !step_->aborting() && !ahead_ && !late_ && !stop_wanted_;
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
    read_results();
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
void RankGroup::read_results() {
  if (!step_->ok() || command_.op != wire::RankOp::kStep) {
    return;
  }
  Result<std::uint64_t> expected = client_.take_results(command_);
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
  if (kMutation == Mutation::kNoDrainBehind) {
    ahead_.reset();
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
  // Where the ranks are to go anyway, none is replaced.
  if (late_ && step.identity().op != wire::RankOp::kStep && !stop_wanted_) {
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

void RankGroup::step_done(const CollectiveStep& step) {
  last_done_ = command_.step;
  repeat_.reset();
  shortages_ = 0;
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
    state_ = State::kStepping;
  } else {
    state_ = late_ || stop_wanted_ ? State::kForming : State::kReady;
  }
  client_.on_step(command, step);
  if (state_ == State::kForming) {
    become_idle();
  }
}

}  // namespace phalanx::engine
