// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/replica_host.h"

#include <unistd.h>

#include <csignal>
#include <utility>

#include "phalanx/obs/log.h"
#include "phalanx/os/child_side.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/error_text.h"

namespace phalanx::fleet {

namespace {

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
      stop_timeout_(std::chrono::seconds(5)),
      links_(start_.spawn.size()),
      burials_(
          os::living_adopted,
          [this](const supervise::Death& death, const std::vector<pid_t>& remaining) {
            for (const pid_t orphan : remaining) {
              obs::log_error("orphan_remains", {{"replica", death.slot}, {"child", orphan}});
            }
            slots_->on_exit(death);
          },
          running_clock()) {
  // The end comes from inside of what the runner and the slots are doing, and may destroy them.
  events_.on_stopped = [this, stopped = events_.on_stopped] { loop_.post(stopped); };
  runner_ = std::make_unique<supervise::PosixProcessRunner>(links_.size(), loop_, *this);
  slots_ = std::make_unique<ReplicaSlots>(
      links_.size(), start_.supervision, *runner_, events_, running_clock());
  look_around_ = loop_.call_every(Burials::kStrangerAge, [this] { burials_.look_around(); });
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (start_.spawn[i].wrapped) {
      slots_->be_patient_with(i);
    }
  }
}

ReplicaHost::~ReplicaHost() = default;

void ReplicaHost::start(int arena, int lifeline_pipe) {
  arena_ = arena;
  lifeline_pipe_ = lifeline_pipe;
  slots_->start_all();
}

wire::Sent ReplicaHost::send(ReplicaId replica, const wire::LeaderMessage& message) {
  const Link& link = links_[replica.value()];
  if (!link.channel) {
    return wire::Sent::kClosed;
  }
  return link.channel->send(
      wire::encode(wire::LeaderFrame{start_.bootstrap.common.boot, link.incarnation, message}));
}

os::SpawnPlan ReplicaHost::plan(std::size_t slot, Incarnation) {
  return start_.spawn[slot];
}

Result<supervise::Bootstrap> ReplicaHost::bootstrap(std::size_t index,
                                                    Incarnation incarnation,
                                                    pid_t pid) {
  Link& link = links_[index];
  const bool wrapped = start_.spawn[index].wrapped;
  link.incarnation = incarnation;
  slots_->on_spawned(index, incarnation);
  ipc::ChannelHandlers handlers;
  handlers.on_frame = [this, index, incarnation](std::string_view bytes) {
    on_frame(index, incarnation, bytes);
  };
  PHALANX_TRY(link.channel,
              ipc::BoundChannel::bind(context_, loop_, wrapped ? 0 : pid, std::move(handlers), {}));

  wire::ReplicaBootstrap record = start_.bootstrap;
  record.common.incarnation = incarnation;
  record.common.parent_pid = wrapped ? 0 : ::getpid();
  record.common.endpoint = link.channel->endpoint();
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

// Before its hello nobody is behind the channel, and what is sent into it is lost. Such a replica
// owns nothing that would have to be given back, and its ranks, if there are any, end with it.
void ReplicaHost::ask_to_stop(std::size_t slot) {
  slots_->on_asked_to_stop(slot);
  if (!slots_->proven(slot)) {
    runner_->signal(slot, SIGKILL);
    return;
  }
  const auto deadline = std::chrono::duration_cast<std::chrono::milliseconds>(stop_timeout_);
  static_cast<void>(send(ReplicaId(static_cast<std::uint32_t>(slot)),
                         wire::StopReplica{false, static_cast<std::uint32_t>(deadline.count())}));
}

void ReplicaHost::on_record(std::size_t slot,
                            Incarnation incarnation,
                            Result<os::ControlMessage> received) {
  const auto record = received ? wire::decode_control_record(received->bytes) : received.error();
  if (!record) {
    obs::log_error("bad_record_from_replica",
                   {{"replica", slot}, {"error", record.error().message()}});
    return;
  }
  if (const auto* failed = std::get_if<wire::ChildFailed>(&*record)) {
    slots_->on_failure(slot, incarnation, wire::error_of(failed->code, failed->message));
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
    slots_->condemn(index, incarnation, error);
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
  if (const auto* hello = std::get_if<wire::ReplicaHello>(&message)) {
    if (hello->secret == start_.bootstrap.common.secret &&
        hello->protocol == wire::kProtocolVersion) {
      slots_->on_hello(index, incarnation);
    } else {
      obs::log_error("hello_refused", {{"replica", index}, {"protocol", hello->protocol}});
      slots_->condemn(index, incarnation, failed_precondition("its hello was refused"));
    }
    return;
  }
  if (!slots_->proven(index)) {
    return;
  }
  slots_->on_heartbeat(index);
  if (const auto* batch = std::get_if<wire::TokenBatch>(&message)) {
    events_.on_tokens(ReplicaId(static_cast<std::uint32_t>(index)), *batch);
  } else if (const auto* status = std::get_if<wire::ReplicaStatus>(&message)) {
    slots_->on_status(index, incarnation, *status);
  } else if (const auto* ready = std::get_if<wire::ReplicaReady>(&message)) {
    obs::log_info("replica_ready",
                  {{"replica", index},
                   {"incarnation", incarnation.value()},
                   {"epoch", ready->epoch.value()},
                   {"kv_blocks", ready->kv_blocks},
                   {"memory_bytes", ready->memory_bytes}});
    slots_->on_ready(index, incarnation, ready->numerics_fingerprint);
  } else if (const auto* holding = std::get_if<wire::ReplicaHolding>(&message)) {
    events_.on_holding(ReplicaId(static_cast<std::uint32_t>(index)), *holding);
  } else if (const auto* changes = std::get_if<wire::PrefixChanges>(&message)) {
    events_.on_prefix_changes(ReplicaId(static_cast<std::uint32_t>(index)), *changes);
  } else if (const auto* failed = std::get_if<wire::ReplicaFailed>(&message)) {
    slots_->on_giving_up(index, incarnation, wire::error_of(failed->code, failed->message));
  }
}

void ReplicaHost::on_dying(std::size_t slot, Incarnation incarnation) {
  // Long before the process is reaped: its requests go on elsewhere at once.
  loop_.post([this, slot, incarnation] {
    if (links_[slot].incarnation == incarnation) {
      lose(slot);
    }
  });
}

void ReplicaHost::on_stopped_by_signal(std::size_t slot, Incarnation incarnation) {
  slots_->on_hung(slot, incarnation, "stopped by a signal");
}

void ReplicaHost::lose(std::size_t index) {
  links_[index].channel.reset();
  slots_->on_lost(index);
}

void ReplicaHost::on_exit(const supervise::Death& death) {
  lose(death.slot);
  burials_.begin(slots_->judge(death));
  await_orphans();
}

void ReplicaHost::await_orphans() {
  if (burials_.any()) {
    orphan_poll_ = loop_.call_after(kOrphanPoll, [this] {
      burials_.poll();
      await_orphans();
    });
  }
}

}  // namespace phalanx::fleet
