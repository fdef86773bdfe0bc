// SPDX-License-Identifier: Apache-2.0
#include "replica_role.h"

#include <unistd.h>

#include <deque>
#include <limits>
#include <utility>

#include "phalanx/checkpoint/config_record.h"
#include "phalanx/engine/replica_engine.h"
#include "phalanx/fleet/child_start.h"
#include "phalanx/fleet/rank_host.h"
#include "phalanx/fleet/worker_command.h"
#include "phalanx/ipc/connected_channel.h"
#include "phalanx/model/kv_layout.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/obs/log.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/step/sequence_table.h"
#include "phalanx/wire/codec.h"

namespace phalanx::worker {

namespace {

// Frames that wait for the leader. One that takes nothing for a while, as it is stopped by
// somebody, pauses this process; past this it is one that goes on to ask, and faulty. Then this
// process ends, and says by its exit status that no request has done that.
constexpr std::size_t kMaxUnsentFrames = 4096;

// For the leader to take the last frames. A leader that is gone ends this process anyway.
constexpr auto kFarewellLimit = std::chrono::seconds(1);

// The replica's end of the link to the leader: frames in order, kept while the link would block.
class LeaderLink final : public engine::ReplicaSink {
 public:
  LeaderLink(os::EventLoop& loop, const wire::ReplicaBootstrap& bootstrap, const Seams& seams)
      : loop_(loop),
        common_(bootstrap.common),
        replica_(bootstrap.replica),
        before_send_(seams.before_replica_send) {}

  [[nodiscard]] Status connect(ipc::ZmqContext& context,
                               std::function<void(std::string_view)> on_frame,
                               std::function<void()> on_taken) {
    ipc::ChannelHandlers handlers;
    handlers.on_frame = std::move(on_frame);
    handlers.on_writable = [this, on_taken = std::move(on_taken)] {
      flush();
      if (takes()) {
        on_taken();
      }
    };
    PHALANX_TRY(
        channel_,
        ipc::ConnectedChannel::connect(context, loop_, common_.endpoint, std::move(handlers), {}));
    return ok();
  }

  void send(wire::ReplicaMessage message) override {
    if (before_send_) {
      before_send_(replica_, common_.incarnation, message);
    }
    if (unsent_.size() >= kMaxUnsentFrames) {
      if (result_) {
        fail(aborted("the leader takes nothing: " + std::to_string(unsent_.size()) +
                     " frames wait for it"));
      }
      return;
    }
    unsent_.push_back(
        wire::encode(wire::ReplicaFrame{common_.boot, common_.incarnation, std::move(message)}));
    flush();
  }

  [[nodiscard]] bool takes() const override { return unsent_.empty(); }

  void on_stopped(const Status& status) override {
    result_ = status;
    stopped_ = true;
    flush();
  }

  // The replica cannot go on with this leader.
  void fail(Error error) {
    result_ = std::move(error);
    loop_.stop();
  }

  [[nodiscard]] const Status& result() const { return result_; }

 private:
  void flush() {
    while (!unsent_.empty() && channel_->send(unsent_.front()) == wire::Sent::kQueued) {
      unsent_.pop_front();
    }
    if (stopped_ && unsent_.empty()) {
      end();
    }
  }

  // The last frames are with the transport, not yet with the leader.
  void end() {
    channel_->deliver_rest(kFarewellLimit);
    loop_.stop();
  }

  os::EventLoop& loop_;
  const wire::ChildCommon& common_;
  ReplicaId replica_;
  std::function<void(ReplicaId, Incarnation, const wire::ReplicaMessage&)> before_send_;
  std::unique_ptr<ipc::ConnectedChannel> channel_;
  std::deque<std::string> unsent_;
  Status result_;
  bool stopped_ = false;
};

class LoopWakeUp final : public engine::WakeUp {
 public:
  explicit LoopWakeUp(os::EventLoop& loop) : loop_(loop) {}

  void set_engine(engine::ReplicaEngine* engine) { engine_ = engine; }

  void wake_after(Duration delay) override {
    timer_ = loop_.call_after(delay, [this] { engine_->on_wake(); });
  }

 private:
  os::EventLoop& loop_;
  engine::ReplicaEngine* engine_ = nullptr;
  std::unique_ptr<os::EventLoop::Handle> timer_;
};

// The engine's ticks, each a sign of life, as often as it asks for them.
class LoopTicks {
 public:
  LoopTicks(os::EventLoop& loop,
            fleet::ChildStart& start,
            engine::ReplicaEngine& engine,
            Duration period)
      : loop_(loop), start_(start), engine_(engine), period_(period) {}

  // To be called after events: where one has given the engine something to do, the next tick comes
  // sooner than it would have.
  void arm() { arm_from(steady_clock().now()); }

 private:
  void arm_from(SteadyTime last) {
    const std::uint32_t periods = engine_.tick_periods();
    const SteadyTime due = last + periods * period_;
    if (timer_ && due >= due_) {
      return;
    }
    due_ = due;
    const Duration left = std::max(due - steady_clock().now(), Duration::zero());
    timer_ = loop_.call_after(left, [this, periods] { tick(periods); });
  }

  // The next one is counted from the beginning of this one, however long that takes.
  void tick(std::uint32_t periods) {
    const SteadyTime began = steady_clock().now();
    start_.bump_progress();
    engine_.on_tick(periods);
    timer_.reset();
    arm_from(began);
  }

  os::EventLoop& loop_;
  fleet::ChildStart& start_;
  engine::ReplicaEngine& engine_;
  Duration period_;
  SteadyTime due_;
  std::unique_ptr<os::EventLoop::Handle> timer_;
};

// The positions that a row reads with as many multiplications as its products with weights take. A
// simulated one reads none.
double row_reads(const checkpoint::ModelConfig& config) {
  const double hidden = config.hidden;
  const double queries = static_cast<double>(config.heads) * config.head_dim;
  const double keys = static_cast<double>(config.kv_heads) * config.head_dim;
  const double weights = hidden * (2.0 * queries + 2.0 * keys + 3.0 * config.intermediate);
  return weights / (2.0 * queries);
}

Result<engine::ReplicaOptions> engine_options(const wire::ReplicaBootstrap& bootstrap,
                                              std::uint64_t memory_bytes,
                                              bool wraps_ranks) {
  PHALANX_TRY(const checkpoint::ModelConfig config,
              checkpoint::from_record(bootstrap.plan.model_config));
  engine::ReplicaOptions options;
  options.replica = bootstrap.replica;
  options.scheduler.limits = bootstrap.plan.limits;
  options.scheduler.vocab_size = config.vocab;
  options.scheduler.prefix_cache = bootstrap.prefix_cache;
  options.scheduler.prefix_key = bootstrap.common.secret;
  options.max_step = std::chrono::milliseconds(bootstrap.max_step_ms);
  options.row_reads = bootstrap.plan.runner == step::Runner::kSim
                          ? std::numeric_limits<double>::infinity()
                          : row_reads(config);
  options.group.ranks = bootstrap.plan.tp;
  options.group.secret = bootstrap.common.secret;
  options.group.restart_limit = bootstrap.restart_limit;
  options.group.restart_window = std::chrono::milliseconds(bootstrap.restart_window_ms);
  options.group.patient = wraps_ranks;
  options.memory_bytes = memory_bytes;
  PHALANX_RETURN_IF_ERROR(engine::validate(options.scheduler));
  return options;
}

// A simulated rank computes nothing: it has neither KV nor scratch.
Result<std::vector<fleet::SlotSizes>> slot_sizes(const wire::ModelPlan& plan) {
  std::vector<fleet::SlotSizes> result(plan.tp);
  for (fleet::SlotSizes& sizes : result) {
    sizes.result_ring = step::result_ring_bytes(plan.limits.max_num_seqs);
    sizes.sequence_table = step::SequenceTable::bytes_for(plan.limits);
    sizes.kv_blocks = plan.limits.kv_blocks;
  }
  if (plan.runner == step::Runner::kSim) {
    return result;
  }
  PHALANX_TRY(const checkpoint::ModelConfig config, checkpoint::from_record(plan.model_config));
  for (std::uint32_t rank = 0; rank < plan.tp; ++rank) {
    PHALANX_TRY(const model::Shard shard, model::plan_shard(config, rank, plan.tp));
    PHALANX_TRY(const model::RankMemory bytes, model::rank_memory(config, shard, plan.limits));
    result[rank].kv = bytes.kv;
    result[rank].kv_block = model::kv_block_bytes(config, shard, plan.limits.kv_format);
    result[rank].scratch = bytes.scratch;
    result[rank].sequence_table = bytes.sequence_table;
    result[rank].result_ring = bytes.result_ring;
    result[rank].exchange = bytes.exchange;
  }
  return result;
}

std::vector<os::SpawnPlan> rank_plans(const wire::ReplicaBootstrap& bootstrap,
                                      const WorkerContext& context) {
  std::vector<os::SpawnPlan> result;
  for (std::uint32_t rank = 0; rank < bootstrap.plan.tp; ++rank) {
    const fleet::WorkerWrapper* const wrapper =
        fleet::wrapper_of(context.wrappers, bootstrap.replica, RankId(rank));
    result.push_back(fleet::worker_plan(fleet::WorkerRole::kRank, wrapper, context.program));
  }
  return result;
}

Status serve(fleet::ChildStart& start,
             const wire::ReplicaBootstrap& bootstrap,
             os::UniqueFd arena,
             const WorkerContext& worker) {
  os::EventLoop loop;
  PHALANX_TRY(ipc::ZmqContext context, ipc::ZmqContext::create());
  LeaderLink link(loop, bootstrap, worker.seams);
  fleet::RankHost host(
      loop, context, bootstrap, rank_plans(bootstrap, worker), start.lifeline_pipe(), arena.get());
  PHALANX_TRY(const std::vector<fleet::SlotSizes> sizes, slot_sizes(bootstrap.plan));
  PHALANX_RETURN_IF_ERROR(host.reserve(sizes));
  PHALANX_TRY(const engine::ReplicaOptions options,
              engine_options(bootstrap, host.memory_bytes(), !worker.wrappers.empty()));
  LoopWakeUp wake_up(loop);
  engine::ReplicaEngine replica(options, host, host.results(), host, link, wake_up, steady_clock());
  host.set_engine(&replica);
  wake_up.set_engine(&replica);
  LoopTicks ticks(loop, start, replica, options.group.progress.period);

  const auto on_frame = [&](std::string_view bytes) {
    auto frame = wire::decode_leader_frame(bytes);
    if (!frame) {
      obs::log_error("bad_frame_from_leader", {{"error", frame.error().message()}});
      const auto refused = wire::read_refused_submit(bytes);
      if (!refused) {
        link.fail(data_loss("a frame of the leader cannot be read: " + frame.error().message()));
      } else if (refused->boot == bootstrap.common.boot &&
                 refused->incarnation == bootstrap.common.incarnation) {
        replica.refuse_submit(refused->key, frame.error());
      }
      return;
    }
    if (frame->boot == bootstrap.common.boot &&
        frame->incarnation == bootstrap.common.incarnation) {
      replica.handle(frame->message);
      ticks.arm();
    }
  };
  PHALANX_RETURN_IF_ERROR(link.connect(context, on_frame, [&replica] { replica.on_wake(); }));
  link.send(wire::ReplicaHello{wire::kProtocolVersion, bootstrap.common.secret, ::getpid()});
  replica.start();
  ticks.arm();
  loop.run();
  return link.result();
}

}  // namespace

int run_replica(WorkerContext& context) {
  wire::ReplicaBootstrap bootstrap;
  auto start = fleet::ChildStart::begin(&bootstrap);
  if (!start) {
    return fleet::fail_child(nullptr, start.error());
  }
  context.set_title(fleet::name_of(bootstrap.replica));
  return fleet::live_child(**start, [&]() -> Status {
    os::UniqueFd arena;
    if (bootstrap.plan.runner != step::Runner::kSim) {
      PHALANX_TRY(arena, (*start)->take_fd(0));
    }
    return serve(**start, bootstrap, std::move(arena), context);
  });
}

}  // namespace phalanx::worker
