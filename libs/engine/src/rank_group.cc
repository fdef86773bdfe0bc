// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/rank_group.h"

#include <algorithm>
#include <string>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/obs/log.h"
#include "phalanx/wire/error_text.h"

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

void RankGroup::stop(bool after_step) {
  if (std::exchange(stop_wanted_, true) || state_ == State::kFailed) {
    return;
  }
  if (state_ == State::kReady) {
    state_ = State::kStopping;
    begin_numbered(wire::RankOp::kShutdown);
  } else if (step_ && (command_.op == wire::RankOp::kPing ||
                       (after_step && state_ == State::kStepping && !aborting()))) {
    return;  // answered in a moment; then the ranks are asked to leave
  } else if (state_ == State::kStepping && step_) {
    step_->fail_own(Error(Code::kCancelled, "the replica stops"));
  } else {
    tell_fault();
    state_ = State::kStopping;
    reap_ticks_ = 0;
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
  const bool was_dying = slot.dying;
  slot = Slot{};
  wire::RankStatus& status = status_[rank.value()];
  status.state = wire::RankState::kDead;
  kv_lost_ = kv_lost_ || !kv_survives(death);
  stop_seen_ = stop_seen_ || death.origin == DeathOrigin::kStopped;
  if (death.lacked_resources) {
    shortage_ = error_of(death, "rank " + std::to_string(rank.value()) + " lacked resources");
  } else {
    own_death_ = own_death_ || death.origin == DeathOrigin::kOwn;
  }
  obs::log_debug("rank_gone",
                 {{"tp", rank.value()},
                  {"expected", expected},
                  {"kv", kv_survives(death) ? "kept" : "dropped"}});
  if (!expected) {
    status.last_error = wire::error_text(death.description);
  } else if (was_dying) {
    explain(rank, death);
  }
  for (CollectiveStep* const step : in_flight()) {
    step->on_death(rank, death);
  }
  if (step_ && !aborting() && state_ != State::kStopping) {
    if (!late_) {
      late_.emplace();
    }
    late_->ranks.push_back(
        {rank, RankFailure::Kind::kDeath, error_of(death, "it died after it had answered")});
  } else if (state_ == State::kReady) {
    recover(fault_of(rank, RankFailure::Kind::kDeath, error_of(death, "it died")));
  } else if (state_ == State::kReaping && pause_periods_ == 0 && !any(&Slot::doomed)) {
    reaped();
  }
  advance();
  end_if_empty();
}

void RankGroup::on_lifeline_free(RankId rank) {
  if (kMutation != Mutation::kNoLifeline) {
    Slot& slot = slots_[rank.value()];
    slot.dying = slot.alive && !slot.doomed;
    // Where nobody waits for it, its death comes by itself and tells more.
    static_cast<void>(distrust(rank, unavailable("it is dying: its lifeline is free")));
  }
}

void RankGroup::on_stopped_by_signal(RankId rank) {
  stop_seen_ = true;
  const Error error = unavailable("it was stopped by a signal");
  if (!distrust(rank, error)) {
    // It owes nothing, so no step will miss it; but it would not answer the next one either.
    status_[rank.value()].last_error = wire::error_text(error.to_string());
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
    recover(fault_of(rank, RankFailure::Kind::kSuspected, std::move(error)));
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

void RankGroup::on_tick(std::uint32_t periods) {
  std::vector<std::uint64_t> words(options_.ranks);
  for (std::uint32_t i = 0; i < options_.ranks; ++i) {
    words[i] = port_.progress(RankId(i));
  }
  const ProgressTick tick = watch_.tick(clock_.now(), periods, words);
  if (step_) {
    step_->on_tick(tick);
    // The one behind it makes no progress of its own before it is begun.
    if (ahead_ && (ahead_->aborting() || step_->done())) {
      ahead_->on_tick(tick);
    }
  } else if (tick.counted) {
    tick_without_step(periods);
  }
  advance();
}

void RankGroup::tick_without_step(std::uint32_t periods) {
  switch (state_) {
    case State::kReady:
      idle_periods_ += periods;
      if (options_.ping_periods != 0 && idle_periods_ >= options_.ping_periods) {
        state_ = State::kStepping;
        begin_numbered(wire::RankOp::kPing);
      }
      break;
    case State::kReaping:
      if (pause_periods_ != 0) {
        pause_periods_ -= std::min(pause_periods_, periods);
        if (pause_periods_ == 0 && !any(&Slot::doomed)) {
          form();
        }
      } else if (++reap_ticks_ >= options_.reap_ticks) {
        fail(deadline_exceeded("a rank was to end and is not gone"));
      } else if (reap_ticks_ == options_.reap_ticks / 2) {
        kill_dying();
      }
      break;
    case State::kStopping:
    case State::kFailed:
      if (++reap_ticks_ == options_.reap_ticks) {
        doom_all();  // those that were asked, and did not leave
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
