// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/replica_host.h"

#include <unistd.h>

#include <csignal>
#include <utility>

#include "phalanx/obs/log.h"
#include "phalanx/os/child_side.h"
#include "phalanx/wire/codec.h"

namespace phalanx::fleet {

namespace {

// A replica sends a heartbeat every 100 ms. So many of our own ticks without one, and only ticks
// that came on time count.
constexpr std::uint32_t kQuietTicksMax = 30;
constexpr auto kTickPeriod = std::chrono::milliseconds(100);

// For the ranks of a dead replica to be gone: the kernel has told them to end.
constexpr auto kOrphanLimit = std::chrono::seconds(5);
constexpr auto kOrphanPoll = std::chrono::milliseconds(2);

}  // namespace

ReplicaHost::ReplicaHost(os::EventLoop& loop,
                         ipc::ZmqContext& context,
                         ReplicaStart start,
                         ReplicaEvents events)
    : loop_(loop),
      context_(context),
      start_(std::move(start)),
      events_(std::move(events)),
      stop_timeout_(std::chrono::seconds(5)) {
  slots_.resize(start_.spawn.size());
  runner_ = std::make_unique<supervise::PosixProcessRunner>(slots_.size(), loop_, *this);
  supervisor_ = std::make_unique<supervise::Supervisor>(
      slots_.size(), start_.supervision, *runner_, *this, steady_clock());
}

ReplicaHost::~ReplicaHost() = default;

void ReplicaHost::start(int arena, int lifeline_pipe) {
  arena_ = arena;
  lifeline_pipe_ = lifeline_pipe;
  supervisor_->start_all();
}

void ReplicaHost::stop_all() {
  stopping_ = true;
  supervisor_->stop_all();
  if (supervisor_->all_stopped()) {
    loop_.post([this] { events_.on_stopped(); });
  }
}

void ReplicaHost::kill_all() {
  supervisor_->kill_all();
}

Status ReplicaHost::check(ReplicaId replica) const {
  if (replica.value() >= slots_.size()) {
    return not_found("replica " + std::to_string(replica.value()) + ": expected 0 … " +
                     std::to_string(slots_.size() - 1));
  }
  return ok();
}

Status ReplicaHost::drain(ReplicaId replica) {
  PHALANX_RETURN_IF_ERROR(check(replica));
  events_.on_draining(replica, true);
  supervisor_->drain(replica.value());
  return ok();
}

Status ReplicaHost::resume(ReplicaId replica) {
  PHALANX_RETURN_IF_ERROR(check(replica));
  events_.on_draining(replica, false);
  supervisor_->resume(replica.value());
  return ok();
}

Status ReplicaHost::restart(ReplicaId replica) {
  PHALANX_RETURN_IF_ERROR(check(replica));
  supervisor_->restart(replica.value());
  return ok();
}

void ReplicaHost::rolling_restart() {
  const bool under_way = !rolling_.empty();
  rolling_.clear();
  for (std::size_t slot = slots_.size(); slot > 0; --slot) {
    rolling_.push_back(slot - 1);
  }
  if (!under_way) {
    supervisor_->restart(rolling_.back());
  }
}

bool ReplicaHost::any_may_serve() const {
  return !all_failed() && !stopping_;
}

void ReplicaHost::on_tick() {
  const SteadyTime now = steady_clock().now();
  const bool on_time = now - last_tick_ < 2 * kTickPeriod;
  last_tick_ = now;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.proven || !on_time) {
      continue;
    }
    if (++slot.quiet_ticks == kQuietTicksMax) {
      slot.hung = true;
      supervisor_->on_hung(
          i,
          slot.incarnation,
          "no heartbeat for " + std::to_string(kQuietTicksMax) + " ticks of 100 ms");
    }
  }
  supervisor_->on_tick();
}

wire::Sent ReplicaHost::send(ReplicaId replica, const wire::LeaderMessage& message) {
  Slot& slot = slots_[replica.value()];
  if (!slot.channel) {
    return wire::Sent::kClosed;
  }
  return slot.channel->send(
      wire::encode(wire::LeaderFrame{start_.bootstrap.common.boot, slot.incarnation, message}));
}

os::SpawnPlan ReplicaHost::plan(std::size_t slot, Incarnation) {
  return start_.spawn[slot];
}

Result<supervise::Bootstrap> ReplicaHost::bootstrap(std::size_t index,
                                                    Incarnation incarnation,
                                                    pid_t pid) {
  Slot& slot = slots_[index];
  slot.incarnation = incarnation;
  slot.proven = false;
  slot.was_ready = false;
  slot.ending = false;
  slot.hung = false;
  slot.quiet_ticks = 0;
  ipc::ChannelHandlers handlers;
  handlers.on_frame = [this, index, incarnation](std::string_view bytes) {
    on_frame(index, incarnation, bytes);
  };
  PHALANX_TRY(slot.channel, ipc::BoundChannel::bind(context_, loop_, pid, std::move(handlers), {}));

  wire::ReplicaBootstrap record = start_.bootstrap;
  record.common.incarnation = incarnation;
  record.common.parent_pid = ::getpid();
  record.common.endpoint = slot.channel->endpoint();
  record.replica = ReplicaId(static_cast<std::uint32_t>(index));
  for (std::uint32_t rank = 0; rank < record.plan.tp; ++rank) {
    record.rank_cpus.push_back(start_.rank_cpus[index * record.plan.tp + rank]);
  }
  supervise::Bootstrap result;
  result.record = wire::encode(wire::ControlRecord(record));
  result.fds = {lifeline_pipe_};
  if (arena_ >= 0) {
    result.fds.push_back(arena_);
  }
  return result;
}

void ReplicaHost::ask_to_stop(std::size_t slot) {
  slots_[slot].ending = true;
  const auto deadline = std::chrono::duration_cast<std::chrono::milliseconds>(stop_timeout_);
  static_cast<void>(send(ReplicaId(static_cast<std::uint32_t>(slot)),
                         wire::StopReplica{false, static_cast<std::uint32_t>(deadline.count())}));
}

void ReplicaHost::on_record(std::size_t slot, Incarnation incarnation, os::ControlMessage message) {
  const auto record = wire::decode_control_record(message.bytes);
  if (!record) {
    obs::log_error("bad_record_from_replica",
                   {{"replica", slot}, {"error", record.error().message()}});
    return;
  }
  if (const auto* failed = std::get_if<wire::ChildFailed>(&*record)) {
    supervisor_->on_failure(
        slot, incarnation, Error(static_cast<Code>(failed->code), failed->message));
  }
}

void ReplicaHost::on_frame(std::size_t index, Incarnation incarnation, std::string_view bytes) {
  auto frame = wire::decode_replica_frame(bytes);
  if (!frame) {
    on_bad_frame(index, incarnation, bytes, frame.error());
  } else if (frame->boot == start_.bootstrap.common.boot && frame->incarnation == incarnation) {
    on_message(index, incarnation, frame->message);
  }
}

// Updates that cannot be read cost their own sequences. Anything else, and who sends it is broken.
void ReplicaHost::on_bad_frame(std::size_t index,
                               Incarnation incarnation,
                               std::string_view bytes,
                               const Error& error) {
  obs::log_error("bad_frame_from_replica", {{"replica", index}, {"error", error.message()}});
  const auto salvaged = wire::salvage_token_batch(bytes);
  if (!salvaged) {
    runner_->signal(index, SIGKILL);
    return;
  }
  if (salvaged->frame.boot != start_.bootstrap.common.boot ||
      salvaged->frame.incarnation != incarnation) {
    return;
  }
  // Those that still run there are found when the replica tells what it holds.
  obs::log_error("sequences_ended_by_bad_updates",
                 {{"replica", index}, {"sequences", salvaged->refused.size()}});
  on_message(index, incarnation, salvaged->frame.message);
}

void ReplicaHost::on_message(std::size_t index,
                             Incarnation incarnation,
                             const wire::ReplicaMessage& message) {
  Slot& slot = slots_[index];
  const ReplicaId replica(static_cast<std::uint32_t>(index));
  if (const auto* hello = std::get_if<wire::ReplicaHello>(&message)) {
    slot.proven = hello->secret == start_.bootstrap.common.secret &&
                  hello->protocol == wire::kProtocolVersion;
    if (slot.proven) {
      supervisor_->on_progress(index, incarnation);
    } else {
      obs::log_error("hello_refused", {{"replica", index}, {"protocol", hello->protocol}});
      runner_->signal(index, SIGKILL);
    }
    return;
  }
  if (!slot.proven) {
    return;
  }
  slot.quiet_ticks = 0;
  if (const auto* batch = std::get_if<wire::TokenBatch>(&message)) {
    events_.on_tokens(replica, *batch);
  } else if (const auto* status = std::get_if<wire::ReplicaStatus>(&message)) {
    on_status(index, incarnation, *status);
  } else if (const auto* ready = std::get_if<wire::ReplicaReady>(&message)) {
    on_ready_message(index, incarnation, *ready);
  } else if (const auto* holding = std::get_if<wire::ReplicaHolding>(&message)) {
    events_.on_holding(replica, *holding);
  } else if (const auto* failed = std::get_if<wire::ReplicaFailed>(&message)) {
    slot.ending = true;
    // Its sequences go on elsewhere at once; taking its ranks down may last.
    events_.on_lost(replica);
    static_cast<void>(events_.on_died(replica, false, failed->message));
    supervisor_->on_failure(
        index, incarnation, Error(static_cast<Code>(failed->code), failed->message));
  }
}

void ReplicaHost::on_ready_message(std::size_t index,
                                   Incarnation incarnation,
                                   const wire::ReplicaReady& ready) {
  slots_[index].numerics = ready.numerics_fingerprint;
  slots_[index].was_ready = true;
  obs::log_info("replica_ready",
                {{"replica", index},
                 {"incarnation", incarnation.value()},
                 {"epoch", ready.epoch.value()},
                 {"kv_blocks", ready.kv_blocks},
                 {"memory_bytes", ready.memory_bytes}});
  supervisor_->on_ready(index, incarnation);
}

void ReplicaHost::on_status(std::size_t index,
                            Incarnation incarnation,
                            const wire::ReplicaStatus& status) {
  const ReplicaId replica(static_cast<std::uint32_t>(index));
  reports_[replica] = status;
  if (status.recovering && slots_[index].serves) {
    supervisor_->on_recovering(index, incarnation);
  } else {
    supervisor_->on_progress(index, incarnation);
  }
}

void ReplicaHost::on_dying(std::size_t slot, Incarnation incarnation) {
  // Long before the process is reaped: its requests go on elsewhere at once.
  loop_.post([this, slot, incarnation] {
    if (slots_[slot].incarnation == incarnation) {
      lose(slot);
    }
  });
}

void ReplicaHost::on_stopped_by_signal(std::size_t slot, Incarnation incarnation) {
  supervisor_->on_hung(slot, incarnation, "stopped by a signal");
}

void ReplicaHost::lose(std::size_t index) {
  const ReplicaId replica(static_cast<std::uint32_t>(index));
  slots_[index].serves = false;
  slots_[index].channel.reset();
  slots_[index].proven = false;
  events_.on_lost(replica);
}

void ReplicaHost::on_exit(const supervise::Death& death) {
  lose(death.slot);
  const Slot& slot = slots_[death.slot];
  const bool hung = slot.hung && death.origin != supervise::DeathOrigin::kStopped;
  const bool own =
      slot.was_ready && !slot.ending && (hung || death.origin == supervise::DeathOrigin::kOwn);
  supervise::Death judged = death;
  judged.excused = events_.on_died(
      ReplicaId(static_cast<std::uint32_t>(death.slot)), own, supervise::describe(death));
  bury(judged, steady_clock().now() + kOrphanLimit);
}

// The ranks of a dead replica are this process's children until they are gone, and hold their KV
// until then: the next incarnation may not fit beside it, so the slot counts as dead afterwards.
void ReplicaHost::bury(const supervise::Death& death, SteadyTime deadline) {
  const std::vector<pid_t> orphans = os::living_adopted();
  if (!orphans.empty() && steady_clock().now() < deadline) {
    slots_[death.slot].burial =
        loop_.call_after(kOrphanPoll, [this, death, deadline] { bury(death, deadline); });
    return;
  }
  for (const pid_t orphan : orphans) {
    obs::log_error("orphan_remains", {{"replica", death.slot}, {"child", orphan}});
  }
  supervisor_->on_exit(death);
}

void ReplicaHost::on_slot_ready(std::size_t slot, Incarnation) {
  const ReplicaId replica(static_cast<std::uint32_t>(slot));
  slots_[slot].serves = true;
  events_.on_ready(replica, slots_[slot].numerics);
  if (!rolling_.empty() && rolling_.back() == slot) {
    rolling_.pop_back();
    if (!rolling_.empty()) {
      supervisor_->restart(rolling_.back());
    }
  }
}

void ReplicaHost::on_slot_down(std::size_t slot, Incarnation) {
  slots_[slot].serves = false;
  events_.on_down(ReplicaId(static_cast<std::uint32_t>(slot)));
}

void ReplicaHost::on_slot_death(const supervise::Death& death) {
  if (!stopping_) {
    obs::log_warn("replica_died",
                  {{"replica", death.slot},
                   {"incarnation", death.incarnation.value()},
                   {"how", supervise::describe(death)}});
  }
}

void ReplicaHost::on_slot_failed(std::size_t slot, const Error& cause) {
  obs::log_error("replica_failed", {{"replica", slot}, {"cause", cause.message()}});
  events_.on_failed(ReplicaId(static_cast<std::uint32_t>(slot)), cause);
}

void ReplicaHost::on_slot_stopped(std::size_t) {
  if (stopping_ && supervisor_->all_stopped()) {
    loop_.post([this] { events_.on_stopped(); });
  }
}

void ReplicaHost::on_slot_stuck(std::size_t slot, pid_t pid) {
  obs::log_error("replica_stuck", {{"replica", slot}, {"child", pid}});
}

}  // namespace phalanx::fleet
