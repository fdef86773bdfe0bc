// SPDX-License-Identifier: Apache-2.0
#include "rank_role.h"

#include <unistd.h>

#include <array>
#include <optional>
#include <utility>

#include "phalanx/checkpoint/config_record.h"
#include "phalanx/engine/rank_loop.h"
#include "phalanx/fleet/child_start.h"
#include "phalanx/fleet/slot_memory.h"
#include "phalanx/ipc/blocking_channel.h"
#include "phalanx/kernels/float_mode.h"
#include "phalanx/kernels/isa.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/os/memfd.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/step/sequence_table.h"
#include "phalanx/wire/codec.h"

#include "allocation_counter.h"
#include "cpu_runner.h"
#include "group_member.h"
#include "sim_host.h"

namespace phalanx::worker {

namespace {

// Descriptors of a RankBootstrap behind the common ones.
using enum fleet::Region;
using fleet::kRegionNames;

// Behind the regions comes the arena's descriptor.
constexpr std::size_t kArena = kRegionNames.size();

constexpr auto kSegmentDeadline = std::chrono::seconds(10);
constexpr auto kIdleSlice = std::chrono::seconds(1);
constexpr auto kReplyDeadline = std::chrono::seconds(10);
constexpr std::uint32_t kSpinWithoutOwnCore = 100;
constexpr auto kRankFarewellLimit = std::chrono::seconds(1);

// A rank's memory and parts, in the order in which they need each other.
class Rank {
 public:
  Rank(fleet::ChildStart& start, wire::RankBootstrap bootstrap)
      : start_(start), bootstrap_(std::move(bootstrap)) {}

  [[nodiscard]] Status prepare(const Seams& seams) {
    PHALANX_RETURN_IF_ERROR(map_regions());
    PHALANX_TRY(const checkpoint::ModelConfig config,
                checkpoint::from_record(bootstrap_.plan.model_config));
    PHALANX_TRY(table_,
                step::SequenceTable::map(
                    mappings_[kSequenceTable].bytes(), bootstrap_.plan.limits, config.vocab));
    group_.emplace(
        bootstrap_.rank,
        [this](Epoch epoch) { return map_segment(epoch); },
        communicator_options());
    std::unique_ptr<engine::ModelRunner> runner;
    if (bootstrap_.plan.runner == step::Runner::kSim) {
      PHALANX_TRY(runner, make_sim_runner(config));
    } else {
      PHALANX_TRY(runner, make_cpu_runner(config));
    }
    runner_ = seams.wrap_runner
                  ? seams.wrap_runner(std::move(runner), bootstrap_.replica, bootstrap_.rank)
                  : std::move(runner);
    return ok();
  }

  // Answers commands until the one to shut down. Every wait is short or ends with the parent
  // (HangupWatch).
  [[nodiscard]] Status serve() {
    PHALANX_TRY(ipc::ZmqContext context, ipc::ZmqContext::create());
    PHALANX_TRY(
        ipc::BlockingChannel channel,
        ipc::BlockingChannel::connect(context, bootstrap_.common.endpoint, ipc::ChannelOptions{}));
    const std::span<std::byte> ring_bytes = mappings_[kResultRing].bytes();
    engine::ResultRing ring({reinterpret_cast<step::SampleResult*>(ring_bytes.data()),
                             step::result_ring_rows(bootstrap_.plan.limits.max_num_seqs)},
                            bootstrap_.plan.limits.max_num_seqs);
    engine::RankLoop loop(loop_options(), *table_, *runner_, ring);
    while (!loop.finished()) {
      PHALANX_TRY(const std::optional<std::string> frame, channel.receive(kIdleSlice));
      if (!frame) {
        continue;
      }
      PHALANX_TRY(const wire::RankCommand command, wire::decode_rank_command(*frame));
      start_.bump_progress();
      const bool was_broken = loop.is_broken();
      const wire::RankReply reply = loop.handle(command);
      if (reply.code != 0) {
        const bool was_aborted = reply.code == static_cast<std::uint32_t>(Code::kAborted);
        obs::log_at(was_aborted || was_broken ? obs::LogLevel::kInfo : obs::LogLevel::kWarn,
                    "command_failed",
                    {{"op", wire::name_of(command.op)},
                     {"epoch", command.epoch.value()},
                     {"step", command.step.value()},
                     {"error", reply.message}});
      }
      PHALANX_RETURN_IF_ERROR(channel.send(wire::encode(reply), kReplyDeadline));
    }
    channel.deliver_rest(kRankFarewellLimit);
    return ok();
  }

 private:
  [[nodiscard]] engine::RankLoopOptions loop_options() const {
    engine::RankLoopOptions options;
    options.rank = bootstrap_.rank;
    options.pid = ::getpid();
    options.secret = bootstrap_.common.secret;
    return options;
  }

  // In a group with more ranks than cores the peer waited for may be waiting for this core:
  // spinning keeps it from coming. Few pauses then make steps of 3 and 4 ranks on 2 cores 25 % and
  // 16 % shorter; with a core for each rank they would make them longer.
  [[nodiscard]] collective::Communicator::Options communicator_options() const {
    collective::Communicator::Options options;
    if (bootstrap_.plan.tp > os::allowed_cpus().size()) {
      options.spin = kSpinWithoutOwnCore;
    }
    return options;
  }

  [[nodiscard]] Status map_regions() {
    if (bootstrap_.region_bytes.size() != kArena) {
      return invalid_argument("bootstrap: expected " + std::to_string(kArena) + " regions, found " +
                              std::to_string(bootstrap_.region_bytes.size()));
    }
    for (std::size_t i = kKv; i < kArena; ++i) {
      if (bootstrap_.region_bytes[i].first != kRegionNames[i]) {
        return invalid_argument("bootstrap: expected the region " + std::string(kRegionNames[i]) +
                                ", found " + bootstrap_.region_bytes[i].first);
      }
      PHALANX_TRY(os::UniqueFd fd, start_.take_fd(i));
      PHALANX_TRY(const os::Memfd memfd,
                  os::Memfd::adopt(std::move(fd), bootstrap_.region_bytes[i].second));
      PHALANX_TRY(mappings_[i], memfd.map(os::Access::kReadWrite));
      start_.bump_progress();
    }
    return mappings_[kKv].exclude_from_dumps();
  }

  [[nodiscard]] Result<EpochMemory> map_segment(Epoch epoch) {
    const SteadyTime deadline = steady_clock().now() + kSegmentDeadline;
    for (;;) {
      PHALANX_TRY(os::ControlMessage message, start_.control().receive_until(deadline));
      PHALANX_TRY(const wire::ControlRecord record, wire::decode_control_record(message.bytes));
      const auto* const segment = std::get_if<wire::EpochSegment>(&record);
      if (segment == nullptr || message.fds.size() != 1) {
        return invalid_argument("the control socket gave no communicator segment");
      }
      if (segment->epoch < epoch) {
        continue;  // of an epoch that ended before this rank took part in it
      }
      if (segment->epoch > epoch) {
        return failed_precondition("the communicator of epoch " + std::to_string(epoch.value()) +
                                   " is gone already");
      }
      PHALANX_TRY(const os::Memfd memfd,
                  os::Memfd::adopt(std::move(message.fds[0]), segment->segment_bytes));
      PHALANX_TRY(segment_, memfd.map(os::Access::kReadWrite));
      collective::SegmentSpec spec;
      spec.epoch = epoch;
      spec.world = bootstrap_.plan.tp;
      spec.nonce = segment->nonce;
      spec.slot_bytes = segment->slot_bytes;
      return EpochMemory{segment_.bytes(), spec};
    }
  }

  [[nodiscard]] Result<std::unique_ptr<engine::ModelRunner>> make_sim_runner(
      const checkpoint::ModelConfig& config) {
    engine::SimOptions options;
    options.step = std::chrono::microseconds(bootstrap_.plan.sim_step_us);
    options.token = std::chrono::microseconds(bootstrap_.plan.sim_token_us);
    options.token_count = config.vocab;
    sim_host_ = std::make_unique<GroupSimHost>(*group_, start_.lifeline().progress()[0]);
    return std::unique_ptr<engine::ModelRunner>(
        std::make_unique<engine::SimRunner>(options, *sim_host_));
  }

  [[nodiscard]] Result<std::unique_ptr<engine::ModelRunner>> make_cpu_runner(
      const checkpoint::ModelConfig& config) {
    PHALANX_TRY(os::UniqueFd fd, start_.take_fd(kArena));
    model::RankModelOptions options;
    options.config = config;
    PHALANX_TRY(const os::Memfd arena,
                os::Memfd::adopt(std::move(fd), model::layout_of(options.config).bytes));
    PHALANX_TRY(arena_, arena.map(os::Access::kReadOnly));
    PHALANX_RETURN_IF_ERROR(arena_.exclude_from_dumps());
    PHALANX_TRY(options.shard,
                model::plan_shard(options.config, bootstrap_.rank.value(), bootstrap_.plan.tp));
    options.limits = bootstrap_.plan.limits;
    PHALANX_TRY(options.isa, kernels::resolve_isa(bootstrap_.plan.isa));
    options.allocation_counter = allocation_count;

    kernels::TeamHooks hooks;
    hooks.context = this;
    hooks.should_stop = [](void* self) { return static_cast<Rank*>(self)->group_->aborted(); };
    hooks.tile_finished = [](void* self) { static_cast<Rank*>(self)->start_.bump_progress(); };
    const std::vector<int> cpus(bootstrap_.cpus.begin(), bootstrap_.cpus.end());
    PHALANX_TRY(auto team, make_team(cpus, hooks));
    model::RankRegions regions;
    regions.weights = arena_.bytes();
    regions.kv = mappings_[kKv].bytes();
    regions.scratch = mappings_[kScratch].bytes();
    regions.exchange = mappings_[kExchange].bytes();
    PHALANX_TRY(auto rank_model, model::RankModel::create(options, regions, *table_, *team));
    return std::unique_ptr<engine::ModelRunner>(std::make_unique<CpuRunner>(
        std::move(team), std::move(rank_model), *group_, mappings_[kKv]));
  }

  // The cores were chosen when the server started; a container may have lost some of them since, or
  // forbid to choose. A rank computes the same without them, if not as fast.
  [[nodiscard]] static Result<std::unique_ptr<kernels::ThreadTeam>> make_team(
      const std::vector<int>& cpus, kernels::TeamHooks hooks) {
    const os::CpuList allowed = os::allowed_cpus();
    auto team = kernels::ThreadTeam::create(cpus, hooks);
    if (team || team.error().code() != Code::kInvalidArgument) {
      return team;
    }
    obs::log_warn("rank_not_pinned", {{"cause", team.error().message()}});
    static_cast<void>(
        os::pin_current_thread(allowed));  // where it may be pinned it may be unpinned
    return kernels::ThreadTeam::create_unpinned(static_cast<std::uint32_t>(cpus.size()), hooks);
  }

  fleet::ChildStart& start_;
  wire::RankBootstrap bootstrap_;
  std::array<os::Mapping, kArena> mappings_;
  os::Mapping arena_;
  os::Mapping segment_;
  std::optional<step::SequenceTable> table_;
  std::optional<GroupMember> group_;
  std::unique_ptr<GroupSimHost> sim_host_;
  std::unique_ptr<engine::ModelRunner> runner_;
};

}  // namespace

int run_rank(WorkerContext& context) {
  kernels::set_float_mode();
  wire::RankBootstrap bootstrap;
  auto start = fleet::ChildStart::begin(&bootstrap);
  if (!start) {
    return fleet::fail_child(nullptr, start.error());
  }
  context.set_title(fleet::name_of(bootstrap.replica, bootstrap.rank));
  const Seams& seams = context.seams;
  if (seams.at_rank_start) {
    seams.at_rank_start(bootstrap.replica, bootstrap.rank);
  }
  // Outside of its life: a failure is told before the memory is torn down.
  Rank rank(**start, std::move(bootstrap));
  return fleet::live_child(**start, [&]() -> Status {
    PHALANX_RETURN_IF_ERROR(rank.prepare(seams));
    return rank.serve();
  });
}

}  // namespace phalanx::worker
