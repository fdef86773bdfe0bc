// SPDX-License-Identifier: Apache-2.0
// What a supervisor does about a transition.
#include <csignal>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/obs/log.h"
#include "phalanx/supervise/supervisor.h"

namespace phalanx::supervise {

// Events are handled one after the other: a listener or an action that causes another event finds
// it queued, so every transition is complete before the next begins.
void Supervisor::post(std::size_t slot, Event event) {
  PHALANX_CHECK(slot < slots_.size(), "slot out of range");
  events_.emplace_back(slot, event);
  if (!handling_) {
    handling_ = true;
    while (!events_.empty()) {
      const auto [next_slot, next_event] = events_.front();
      events_.pop_front();
      apply(next_slot, next_event);
    }
    handling_ = false;
  }
}

void Supervisor::apply(std::size_t index, Event event) {
  SlotStatus& status = slots_[index].status;
  const Transition transition = step(status.state, event);
  if (transition.next != status.state) {
    obs::log_debug("slot_state",
                   {{"slot", index},
                    {"incarnation", status.incarnation.value()},
                    {"from", to_string(status.state)},
                    {"event", to_string(event)},
                    {"to", to_string(transition.next)}});
    status.state = transition.next;
    status.since = clock_.now();
  }
  for (std::uint32_t bit = 1; bit <= kReportStopped; bit <<= 1) {
    if ((transition.actions & bit) != 0) {
      perform(index, static_cast<Action>(bit));
    }
  }
}

void Supervisor::perform(std::size_t index, Action action) {
  Slot& slot = slots_[index];
  const SteadyTime now = clock_.now();
  switch (action) {
    case kNothing:
      break;
    case kReportDown:
      listener_.on_slot_down(index, slot.status.incarnation);
      break;
    case kTellDeath:
      tell_death(index);
      break;
    case kDisarm:
      slot.deadline.reset();
      break;
    case kForgive:
      slot.policy.forgive();
      break;
    case kSpawn:
      spawn(index);
      break;
    case kArmStartDeadline:
      slot.deadline.reset();
      if (slot.doomed || slot.dying) {
        slot.deadline = slot.dies_by;  // it starts nothing any more
      } else if (!slot.patient) {
        slot.deadline = now + options_.start_timeout;
      }
      break;
    case kKill:
      kill(index);
      break;
    case kBeginStop:
      begin_stop(index);
      break;
    case kEscalateStop:
      escalate(index);
      break;
    case kScheduleRestart:
      schedule_restart(index);
      break;
    case kRecallReadiness:
      if (slot.said_ready && !slot.doomed && !slot.dying) {
        post(index, Event::kReady);
      }
      break;
    case kNoteReady:
      slot.status.ever_ready = true;
      slot.policy.on_ready(now);
      break;
    case kReportReady:
      listener_.on_slot_ready(index, slot.status.incarnation);
      break;
    case kReportFailed:
      fail(index);
      break;
    case kReportStopped:
      stopped(index);
      break;
  }
}

void Supervisor::tell_death(std::size_t index) {
  Slot& slot = slots_[index];
  slot.status.pid = 0;
  if (slot.status.state != State::kStopped) {
    slot.status.last_error = slot.error->message();
  }
  listener_.on_slot_death(slot.death);
}

void Supervisor::spawn(std::size_t index) {
  Slot& slot = slots_[index];
  slot.status.restarts += slot.status.incarnation.value() > 0 ? 1U : 0U;
  slot.status.incarnation = Incarnation(slot.status.incarnation.value() + 1);
  slot.phase = StopPhase::kNone;
  slot.death.excused = false;
  slot.reported.reset();
  slot.error.reset();
  slot.said_ready = false;
  slot.dying = false;
  slot.doomed = false;
  slot.stuck = false;
  slot.restart_wanted = false;
  auto pid = runner_.spawn(index, slot.status.incarnation);
  if (pid) {
    slot.status.pid = *pid;
    slot.told.clear();
    post(index, Event::kSpawned);
    return;
  }
  slot.error = std::move(pid).error();
  slot.status.last_error = slot.error->message();
  if (std::exchange(slot.told, slot.status.last_error) != slot.status.last_error) {
    obs::log_warn("not_started", {{options_.what, index}, {"error", slot.status.last_error}});
  }
  post(index, is_final(slot) ? Event::kSpawnRefused : Event::kSpawnFailed);
}

void Supervisor::kill(std::size_t index) {
  Slot& slot = slots_[index];
  if (!slot.doomed && !slot.reported) {
    slot.reported = deadline_exceeded(
        slot.dying
            ? "its end had begun and took longer than " + seconds_text(options_.death_timeout)
            : "no sign of progress for " + seconds_text(options_.start_timeout));
  }
  doom(index);
}

void Supervisor::doom(std::size_t index) {
  Slot& slot = slots_[index];
  const SteadyTime now = clock_.now();
  const bool first = !std::exchange(slot.doomed, true);
  const bool late = !first && slot.dies_by <= now;
  if (first || late) {
    slot.dies_by = now + options_.kill_timeout;
  }
  slot.phase = StopPhase::kKilled;
  slot.deadline = slot.dies_by;
  runner_.signal(index, SIGKILL);
  if (first) {
    listener_.on_slot_doomed(index);
  } else if (late) {
    slot.stuck = true;
    listener_.on_slot_stuck(index, slot.status.pid);
  }
}

// Of one that was killed nothing more is asked: only its death is waited for.
void Supervisor::begin_stop(std::size_t index) {
  Slot& slot = slots_[index];
  if (slot.doomed) {
    slot.deadline = slot.dies_by;
    return;
  }
  slot.phase = StopPhase::kAsked;
  slot.deadline = clock_.now() + options_.stop_timeout;
  runner_.ask_to_stop(index);
}

void Supervisor::schedule_restart(std::size_t index) {
  Slot& slot = slots_[index];
  const SteadyTime now = clock_.now();
  const bool lacks = lenient_ && slot.error && slot.error->code() == Code::kResourceExhausted;
  const auto delay = lacks && !slot.death.excused ? slot.policy.delay_in_shortage(now)
                                                  : slot.policy.next_delay(now, slot.death.excused);
  if (delay) {
    slot.deadline = now + *delay;
    return;
  }
  const RestartIntensity& intensity = options_.restart.intensity;
  const Error last = slot.error ? *slot.error : internal_error("unknown");
  slot.error =
      Error(last.code(),
            "restarted " + std::to_string(intensity.limit) + " times within " +
                seconds_text(intensity.window) + ", which is the limit; last: " + last.message());
  post(index, Event::kGiveUp);
}

void Supervisor::escalate(std::size_t index) {
  Slot& slot = slots_[index];
  const SteadyTime now = clock_.now();
  switch (slot.phase) {
    case StopPhase::kNone:
    case StopPhase::kAsked:
      slot.phase = StopPhase::kTerminated;
      slot.deadline = now + options_.term_timeout;
      runner_.signal(index, SIGTERM);
      return;
    case StopPhase::kTerminated:
    case StopPhase::kKilled:
      doom(index);
      return;
  }
}

void Supervisor::fail(std::size_t index) {
  Slot& slot = slots_[index];
  slot.status.pid = 0;
  const Error cause = slot.error ? *slot.error : internal_error("failed for an unknown reason");
  slot.status.last_error = cause.message();
  listener_.on_slot_failed(index, cause);
}

void Supervisor::stopped(std::size_t index) {
  Slot& slot = slots_[index];
  slot.status.pid = 0;
  const bool again = std::exchange(slot.restart_wanted, false);
  listener_.on_slot_stopped(index);
  if (again) {
    post(index, Event::kStart);
  }
}

}  // namespace phalanx::supervise
