// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/rank_host.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "phalanx/engine/replica_engine.h"
#include "phalanx/obs/log.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/wire/codec.h"

namespace phalanx::fleet {

namespace {

// For one call of back(). Steps wait that long, heartbeats too.
constexpr auto kBackingSlice = std::chrono::milliseconds(100);

engine::RankDeath death_of(const supervise::Death& death) {
  engine::RankDeath result;
  if (const auto* signaled = std::get_if<os::Signaled>(&death.reason)) {
    result.signaled = true;
    result.number = signaled->signal;
  } else {
    result.number = std::get<os::Exited>(death.reason).status;
  }
  result.description = supervise::describe(death);
  result.origin = death.origin;
  return result;
}

}  // namespace

RankHost::RankHost(os::EventLoop& loop,
                   ipc::ZmqContext& context,
                   const wire::ReplicaBootstrap& bootstrap,
                   std::vector<os::SpawnPlan> spawn,
                   int lifeline_pipe,
                   int arena)
    : loop_(loop),
      context_(context),
      config_(bootstrap),
      spawn_(std::move(spawn)),
      lifeline_pipe_(lifeline_pipe),
      arena_(arena) {
  slots_.resize(config_.plan.tp);
  runner_ = std::make_unique<supervise::PosixProcessRunner>(slots_.size(), loop_, *this);
}

RankHost::~RankHost() = default;

Status RankHost::reserve(const std::vector<SlotSizes>& sizes) {
  for (std::uint32_t rank = 0; rank < slots_.size(); ++rank) {
    const os::NodeList nodes = os::nodes_near(config_.rank_cpus[rank]);
    PHALANX_TRY(slots_[rank].memory, SlotMemory::create(rank, sizes[rank], nodes));
  }
  PHALANX_TRY(exchange_,
              os::Memfd::reserve("phalanx-exchange",
                                 std::max(sizes.front().exchange, SlotMemory::kLeastBytes)));
  PHALANX_RETURN_IF_ERROR(exchange_.back(0, exchange_.size()));
  PHALANX_TRY(result_mapping_, slots_.front().memory.map_results());
  const std::uint32_t rows = config_.plan.limits.max_num_seqs;
  results_ = std::make_unique<engine::ResultRing>(
      std::span(reinterpret_cast<step::SampleResult*>(result_mapping_.bytes().data()),
                step::result_ring_rows(rows)),
      rows);
  while (back(1).blocks == 0) {
    PHALANX_RETURN_IF_ERROR(kv_status_);
  }
  return ok();
}

engine::KvMemory::Backed RankHost::back(std::uint32_t blocks) {
  const SteadyTime end = steady_clock().now() + kBackingSlice;
  for (;;) {
    const auto least =
        std::min_element(slots_.begin(), slots_.end(), [](const Slot& one, const Slot& other) {
          return one.memory.kv_blocks_backed() < other.memory.kv_blocks_backed();
        });
    const std::uint32_t backed = least->memory.kv_blocks_backed();
    if (backed >= blocks || steady_clock().now() >= end) {
      return {backed, false};
    }
    kv_status_ = least->memory.back_kv();
    if (!kv_status_) {
      obs::log_debug("kv_memory_refused", {{"error", kv_status_.error().message()}});
      return {backed, true};
    }
  }
}

void RankHost::forget() {
  for (Slot& slot : slots_) {
    slot.memory.forget_kv();
  }
}

std::uint64_t RankHost::memory_bytes() const {
  std::uint64_t total = exchange_.size();
  for (const Slot& slot : slots_) {
    total += slot.memory.total_bytes();
  }
  return total;
}

wire::Sent RankHost::send(RankId rank, std::string_view frame) {
  Slot& slot = slots_[rank.value()];
  return slot.channel ? slot.channel->send(frame) : wire::Sent::kClosed;
}

void RankHost::kill(RankId rank) {
  runner_->signal(rank.value(), SIGKILL);
}

Status RankHost::respawn(RankId rank, Incarnation incarnation) {
  Slot& slot = slots_[rank.value()];
  slot.incarnation = incarnation;
  slot.reported.clear();
  slot.lacked_resources = false;
  PHALANX_TRY(const pid_t pid, runner_->spawn(rank.value(), incarnation));
  obs::log_debug("rank_process", {{"tp", rank.value()}, {"child", pid}});
  return ok();
}

Status RankHost::new_segment(Epoch epoch) {
  PHALANX_TRY(const wire::EpochSegment record, segment_.renew(epoch, config_.plan.tp));
  const std::string bytes = wire::encode(wire::ControlRecord(record));
  const int fd = segment_.fd();
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    // A rank that cannot take it is about to be found dead or hung: its init will say so.
    PHALANX_TRY(const os::ControlSent sent, runner_->send(slot, bytes, {&fd, 1}));
    if (sent == os::ControlSent::kTooManyDescriptors) {
      return os::too_many_descriptors();
    }
    if (sent != os::ControlSent::kQueued) {
      obs::log_warn("segment_not_taken", {{"tp", slot}, {"epoch", epoch.value()}});
    }
  }
  return ok();
}

std::uint64_t RankHost::progress(RankId rank) {
  const os::Lifeline* lifeline = runner_->lifeline(rank.value());
  return lifeline == nullptr ? 0 : lifeline->progress_sum();
}

os::SpawnPlan RankHost::plan(std::size_t slot, Incarnation) {
  return spawn_[slot];
}

Result<supervise::Bootstrap> RankHost::bootstrap(std::size_t index,
                                                 Incarnation incarnation,
                                                 pid_t pid) {
  Slot& slot = slots_[index];
  const RankId rank(static_cast<std::uint32_t>(index));
  const bool wrapped = spawn_[index].wrapped;
  ipc::ChannelHandlers handlers;
  handlers.on_frame = [this, rank](std::string_view frame) { on_frame(rank, frame); };
  handlers.on_writable = [this, rank] { engine_->on_writable(rank); };
  PHALANX_TRY(slot.channel,
              ipc::BoundChannel::bind(context_, loop_, wrapped ? 0 : pid, std::move(handlers), {}));

  wire::RankBootstrap record;
  record.common = config_.common;
  record.common.incarnation = incarnation;
  record.common.parent_pid = wrapped ? 0 : ::getpid();
  record.common.endpoint = slot.channel->endpoint();
  record.replica = config_.replica;
  record.rank = rank;
  record.plan = config_.plan;
  record.cpus = config_.rank_cpus[index];
  record.region_bytes = slot.memory.region_bytes();
  record.region_bytes.emplace_back(kRegionNames[kExchange], exchange_.size());
  supervise::Bootstrap result;
  result.record = wire::encode(wire::ControlRecord(record));
  result.fds = {lifeline_pipe_};
  const std::vector<int> regions = slot.memory.fds();
  result.fds.insert(result.fds.end(), regions.begin(), regions.end());
  result.fds.push_back(exchange_.fd());
  if (arena_ >= 0) {
    result.fds.push_back(arena_);
  }
  return result;
}

void RankHost::ask_to_stop(std::size_t) {}  // ranks are asked by the engine's shutdown command

void RankHost::on_frame(RankId rank, std::string_view frame) {
  auto reply = wire::decode_rank_reply(frame);
  if (!reply || reply->rank != rank) {
    obs::log_error("bad_frame_from_rank",
                   {{"tp", rank.value()},
                    {"error", reply ? "it names another rank" : reply.error().message()}});
    kill(rank);  // its death is its outcome
    return;
  }
  if (reply->code == static_cast<std::uint32_t>(Code::kAborted)) {
    const Duration since =
        steady_clock().now() - SteadyTime(Duration(last_dying_.load(std::memory_order_relaxed)));
    obs::log_debug("survivor_answered",
                   {{"tp", rank.value()}, {"after_death_ms", to_milliseconds(since)}});
  }
  engine_->on_reply(rank, *reply);
}

void RankHost::on_record(std::size_t slot,
                         Incarnation incarnation,
                         Result<os::ControlMessage> received) {
  const auto record = received ? wire::decode_control_record(received->bytes) : received.error();
  if (!record) {
    obs::log_error("bad_record_from_rank", {{"tp", slot}, {"error", record.error().message()}});
    return;
  }
  if (const auto* failed = std::get_if<wire::ChildFailed>(&*record);
      failed != nullptr && incarnation == slots_[slot].incarnation) {
    slots_[slot].reported = failed->message;
    slots_[slot].lacked_resources =
        failed->code == static_cast<std::uint32_t>(Code::kResourceExhausted);
  }
}

void RankHost::on_dying(std::size_t slot, Incarnation incarnation) {
  last_dying_.store(steady_clock().now().time_since_epoch().count(), std::memory_order_relaxed);
#ifndef PHALANX_MUTATE_NO_ABORT_ON_DYING
  segment_.raise_abort();
#endif
  // By the time the loop gets to it the slot may have a successor, which must not be blamed.
  loop_.post([this, slot, incarnation] {
    if (slots_[slot].incarnation == incarnation) {
      engine_->on_lifeline_free(RankId(static_cast<std::uint32_t>(slot)));
    }
  });
}

void RankHost::on_stopped_by_signal(std::size_t slot, Incarnation) {
  engine_->on_stopped_by_signal(RankId(static_cast<std::uint32_t>(slot)));
}

void RankHost::on_exit(const supervise::Death& death) {
  Slot& slot = slots_[death.slot];
  engine::RankDeath told = death_of(death);
  const std::string said = slot.reported.empty() ? "" : ": " + slot.reported;
  told.description += said;
  // What it says can be lost with it; its exit status cannot.
  const int lacking = error_traits(Code::kResourceExhausted).exit_status;
  told.lacked_resources =
      slot.lacked_resources || (said.empty() && !told.signaled && told.number == lacking);
  // It was told to shut down, or was in a step that nobody waits for any more.
  const bool orderly =
      told.signaled ? engine_->group_stopping() && told.number == SIGKILL : told.number == 0;
  obs::log_at(orderly ? obs::LogLevel::kInfo : obs::LogLevel::kWarn,
              orderly ? "rank_ended" : "rank_died",
              {{"tp", death.slot},
               {"incarnation", death.incarnation.value()},
               {"how", supervise::describe_for_log(death) + said}});
  slot.channel.reset();  // replies that it left unread are of no step that counts
  engine_->on_death(RankId(static_cast<std::uint32_t>(death.slot)), told);
}

}  // namespace phalanx::fleet
