// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/front_host.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <utility>
#include <variant>

#include "phalanx/obs/log.h"
#include "phalanx/supervise/tick.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/error_text.h"

namespace phalanx::keeper {

namespace {

// In which the clients of a dead front are served again, mostly.
constexpr auto kTakeOverTime = std::chrono::milliseconds(50);

// Of whom a record speaks; 0: of nobody.
std::uint64_t connection_of(const wire::FrontToLeader& record) {
  return std::visit(
      [](const auto& content) -> std::uint64_t {
        if constexpr (requires { content.key.connection; }) {
          return content.key.connection;
        } else if constexpr (requires { content.connection; }) {
          return content.connection;
        } else {
          return 0;
        }
      },
      record);
}

// The first restart comes nearly at once, so that clients wait for nothing but the new process; one
// that dies at every start is tried about every second.
supervise::SupervisorOptions supervision_of(const FrontStart& start) {
  supervise::SupervisorOptions options;
  options.what = "front";
  options.restart.backoff.first = std::chrono::milliseconds(2);
  options.restart.backoff.cap = std::chrono::milliseconds(800);
  options.restart.intensity.limit = std::numeric_limits<std::uint32_t>::max();
  options.restart.intensity.window = std::chrono::seconds(1);
  options.start_timeout = start.start_timeout;
  options.stop_timeout = Duration::zero();
  options.term_timeout = Duration::zero();
  return options;
}

}  // namespace

FrontHost::FrontHost(os::EventLoop& loop, FrontStart start, FrontCalls calls)
    : loop_(loop),
      start_(std::move(start)),
      calls_(std::move(calls)),
      links_(start_.fronts + start_.spares + (start_.has_quarantine ? 1 : 0)),
      programs_(std::move(start_.program), links_.size(), start_.trial_time),
      ticks_(supervise::kTickPeriod) {
  runner_ = std::make_unique<supervise::PosixProcessRunner>(links_.size(), loop_, *this);
  supervisor_ = std::make_unique<supervise::Supervisor>(
      links_.size(), supervision_of(start_), *runner_, *this, running_clock());
}

FrontHost::~FrontHost() = default;

void FrontHost::start(int tokenizer, int lifeline_pipe) {
  tokenizer_ = tokenizer;
  lifeline_pipe_ = lifeline_pipe;
  for (std::size_t slot = 0; slot < start_.fronts; ++slot) {
    supervisor_->start(slot);
  }
  arm();
}

void FrontHost::use_program(os::HeldProgram program) {
  if (const auto slot = programs_.offer(std::move(program))) {
    replace(*slot);  // it is tried with a program that is not wanted any more
  }
}

void FrontHost::judge_trial(SteadyTime now) {
  const auto slot = programs_.trial();
  if (!slot) {
    return;
  }
  const supervise::SlotStatus status = supervisor_->status(*slot);
  if (!supervise::has_process(status.state)) {
    refuse_program(*slot, status.last_error);  // it could not be started
  } else if (programs_.is_overdue(now)) {
    kill(*slot, {"it is not ready in time"});
  }
}

void FrontHost::refuse_program(std::size_t slot, const std::string& why) {
  if (const auto path = programs_.on_failed(slot)) {
    calls_.on_program_refused(unavailable(*path + ": " + why));
  }
}

void FrontHost::restart(std::size_t front) {
  links_[front].asked = "front_ended";
  supervisor_->restart(front);
  arm();
}

void FrontHost::replace(std::size_t front) {
  links_[front].asked = "front_renewed";
  supervisor_->restart(front);
  arm();
}

void FrontHost::stop(std::size_t front) {
  links_[front].asked = "front_ended";
  supervisor_->stop(front);
  arm();
}

// Restarts come when they are due and not with the next tick, but leave the processor to a front
// that takes connections over.
void FrontHost::arm() {
  auto deadline = supervisor_->next_deadline();
  if (!deadline) {
    wake_.reset();
    return;
  }
  const auto serves = [](const Link& link) { return link.ready && !link.killed; };
  if (std::any_of(links_.begin(), links_.end(), serves)) {
    deadline = std::max(*deadline, last_death_ + kTakeOverTime);
  }
  const Duration wait = std::max<Duration>(*deadline - running_clock().now(), Duration::zero());
  wake_ = loop_.call_after(wait, [this] {
    loop_.name_callback("front deadline");
    supervisor_->on_tick();
    arm();
  });
}

void FrontHost::on_tick() {
  const bool counts = ticks_.counts(running_clock().now());
  for (std::size_t front = 0; front < links_.size(); ++front) {
    Link& link = links_[front];
    link.quiet_ticks += link.ready && counts ? 1U : 0U;
    link.stuck_ticks += !link.unsent.empty() && counts ? 1U : 0U;
    if (link.stuck_ticks > kMaxStuckTicks) {
      kill(front, {"it takes no record", true});
    } else if (link.quiet_ticks > kMaxQuietTicks) {
      kill(front, {"it says nothing", true});
    }
  }
  judge_trial(running_clock().now());
  arm();
}

// It gets nothing more: what is still to be told is told to another one, behind its end.
void FrontHost::kill(std::size_t front, const Kill& kill) {
  Link& link = links_[front];
  if (link.killed) {
    return;
  }
  link.killed = kill;
  obs::log_error("front_killed", {{"front", front}, {"why", kill.why}});
  link.unsent.clear();
  link.unsent_bytes = 0;
  supervisor_->condemn(front, supervisor_->status(front).incarnation, unavailable(kill.why));
  if (calls_.on_killed) {
    calls_.on_killed(front);
  }
  arm();
}

os::SpawnPlan FrontHost::plan(std::size_t slot, Incarnation) {
  os::SpawnPlan plan;
  const bool is_quarantine = start_.has_quarantine && slot + 1 == links_.size();
  plan.program = programs_.start(slot, !is_quarantine, running_clock().now()).spawn_path();
  plan.arguments = {"phalanx-front", "worker", "front"};  // some: they are the title's room
  plan.holds_group_signals = true;
  return plan;
}

Result<supervise::Bootstrap> FrontHost::bootstrap(std::size_t slot,
                                                  Incarnation incarnation,
                                                  pid_t) {
  links_[slot] = Link();
  wire::FrontBootstrap record = start_.bootstrap;
  record.common.incarnation = incarnation;
  record.common.parent_pid = ::getpid();
  record.front = static_cast<std::uint32_t>(slot);
  supervise::Bootstrap result;
  result.fds = {lifeline_pipe_, tokenizer_};
  PHALANX_TRY(links_[slot].journal, make_journal(slot));
  if (links_[slot].journal) {
    result.fds.push_back(links_[slot].journal->fd());
  } else {
    record.journal_bytes = 0;
    record.journal_places = 0;
  }
  result.record = wire::encode(wire::ControlRecord(record));
  return result;
}

// Null if fronts have none, or there cannot be one. Where there was one before and nothing but
// resources is lacking, that is an error: the front is started when there is one again, as
// otherwise all that it ever has in work would end with it.
Result<std::shared_ptr<FrontJournal>> FrontHost::make_journal(std::size_t front) {
  if (start_.bootstrap.journal_bytes == 0) {
    return std::shared_ptr<FrontJournal>();
  }
  auto journal =
      FrontJournal::create(start_.bootstrap.journal_bytes, start_.bootstrap.journal_places);
  had_journal_ |= journal.has_value();
  const bool is_lacking = !journal && journal.error().code() == Code::kResourceExhausted;
  if (journal || (is_lacking && had_journal_ && ever_ready_)) {
    return journal;
  }
  obs::log_warn("front_has_no_journal", {{"front", front}, {"why", journal.error().message()}});
  return std::shared_ptr<FrontJournal>();
}

void FrontHost::ask_to_stop(std::size_t slot) {
  runner_->signal(slot, SIGKILL);
}

void FrontHost::on_record(std::size_t slot,
                          Incarnation incarnation,
                          Result<os::ControlMessage> received) {
  Link& link = links_[slot];
  link.quiet_ticks = 0;
  if (link.killed && !link.ready) {
    return;  // whatever it has said of itself: it serves nobody, and proves no program
  }
  if (!received) {
    on_bad_record(slot, received.error(), 0);  // what it asked for would never be answered
    return;
  }
  if (!link.ready) {
    on_start_record(slot, incarnation, received->bytes);
    return;
  }
  auto record = wire::decode_front_to_leader(received->bytes);
  const std::uint64_t connection = record ? connection_of(*record) : 0;
  const Status taken = record ? calls_.on_record(slot, *record) : record.error();
  if (!taken) {
    on_bad_record(slot, taken.error(), connection);
  }
}

// `culprit`: the connection that it was about, or 0.
void FrontHost::on_bad_record(std::size_t slot, const Error& error, std::uint64_t culprit) {
  obs::log_error("bad_record_from_front", {{"front", slot}, {"error", error.message()}});
  kill(slot, {"what it sends is wrong", true, culprit});
}

void FrontHost::on_start_record(std::size_t slot,
                                Incarnation incarnation,
                                const std::string& bytes) {
  const auto record = wire::decode_control_record(bytes);
  if (!record) {
    on_bad_record(slot, record.error(), 0);
  } else if (std::holds_alternative<wire::ChildReady>(*record)) {
    supervisor_->on_ready(slot, incarnation);
  } else if (std::holds_alternative<wire::ChildProgress>(*record)) {
    supervisor_->on_progress(slot, incarnation);
  } else if (const auto* failed = std::get_if<wire::ChildFailed>(&*record)) {
    supervisor_->on_failure(slot, incarnation, wire::error_of(failed->code, failed->message));
  }
}

// A stopped front would write on when it is continued: it is dead before anybody else speaks for
// it.
void FrontHost::on_stopped_by_signal(std::size_t slot, Incarnation) {
#ifdef PHALANX_MUTATE_NO_FENCE
  static_cast<void>(calls_.on_gone(slot, FrontEnd()));
#endif
  kill(slot, {"stopped by a signal"});
}

FrontEnd FrontHost::end_of(const Link& link, const supervise::Death& death) {
  FrontEnd end;
  const Kill kill = link.killed.value_or(Kill());
  end.is_own = kill.at_fault || death.origin == DeathOrigin::kOwn;
  end.culprit = kill.culprit != 0 ? kill.culprit : death.work;
  if (link.journal) {
    if (const Status closed = link.journal->close_for_writing()) {
      end.journal = link.journal;
    } else {
      obs::log_warn("journal_lost", {{"front", death.slot}, {"why", closed.error().message()}});
    }
  }
  return end;
}

void FrontHost::on_exit(const supervise::Death& death) {
  const Link link = std::exchange(links_[death.slot], Link());
  supervise::Death judged = death;
  if (link.ready) {
    judged.excused = calls_.on_gone(death.slot, end_of(link, death));
  } else if (death.origin == DeathOrigin::kOwn ||
             (link.killed && death.origin != DeathOrigin::kStopped)) {
    refuse_program(death.slot, link.killed ? link.killed->why : supervise::describe_for_log(death));
  } else {
    programs_.on_ended(death.slot);
  }
  asked_ = death.origin != DeathOrigin::kOwn ? link.asked : nullptr;
  supervisor_->on_exit(std::move(judged));
  last_death_ = running_clock().now();
  arm();
}

void FrontHost::on_slot_ready(std::size_t slot, Incarnation incarnation) {
  obs::log_info("front_ready", {{"front", slot}, {"incarnation", incarnation.value()}});
  links_[slot].ready = true;
  programs_.on_ready(slot);
  if (!std::exchange(ever_ready_, true)) {
    supervisor_->end_first_start();
    // Later, and not from inside of what the supervisor tells.
    loop_.post([this] {
      for (std::size_t spare = 0; spare < start_.spares; ++spare) {
        supervisor_->start(start_.fronts + spare);
      }
      arm();
    });
  }
  calls_.on_ready(slot);
}

void FrontHost::on_slot_death(const supervise::Death& death) {
  if (asked_ != nullptr) {
    obs::log_info(asked_, {{"front", death.slot}, {"incarnation", death.incarnation.value()}});
    return;
  }
  obs::log_warn("front_died",
                {{"front", death.slot},
                 {"incarnation", death.incarnation.value()},
                 {"how", supervise::describe_for_log(death)}});
}

void FrontHost::on_slot_failed(std::size_t slot, const Error& cause) {
  calls_.on_first_start_failed(Error(cause).with("front " + std::to_string(slot)));
}

void FrontHost::on_slot_stuck(std::size_t slot, pid_t pid) {
  obs::log_error("front_hangs_in_the_kernel", {{"front", slot}, {"child", pid}});
}

}  // namespace phalanx::keeper
