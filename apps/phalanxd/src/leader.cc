// SPDX-License-Identifier: Apache-2.0
#include "leader.h"

#include <csignal>
#include <limits>
#include <utility>

#include "phalanx/admin/commands.h"
#include "phalanx/base/bytes_text.h"
#include "phalanx/desk/poison_dump.h"
#include "phalanx/fleet/worker_command.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/child_side.h"
#include "phalanx/os/machine.h"
#include "phalanx/settings/start_text.h"
#include "phalanx/supervise/tick.h"

#include "leader_view.h"
#include "process_metrics.h"

namespace phalanx::app {

namespace {

// The prompts of a command line are a whole of its own: nobody would send again what was refused.
dispatch::AdmissionLimits admission_of(const settings::Options& options) {
  if (!options.prompts.empty()) {
    return {std::numeric_limits<std::uint64_t>::max(),
            std::numeric_limits<std::uint64_t>::max() / 2};
  }
  return {static_cast<std::uint64_t>(options.max_num_queued_reqs),
          static_cast<std::uint64_t>(options.max_num_queued_tokens)};
}

}  // namespace

Leader::Leader(const settings::Options& options, LeaderStart start, ipc::ZmqContext context)
    : options_(options),
      plan_(std::move(start.plan)),
      tokenizer_(std::move(start.tokenizer)),
      workers_(std::move(start.workers)),
      context_(std::move(context)),
      router_(static_cast<std::size_t>(options.dp),
              *dispatch::make_policy(options.routing_policy, os::random_u64())),
      admission_(admission_of(options)),
      metrics_(registry_, plan_.model_name) {}

Leader::~Leader() = default;

Result<int> Leader::run() {
  PHALANX_RETURN_IF_ERROR(os::become_subreaper());
  PHALANX_TRY(lifeline_, os::make_pipe());
  make_dispatch();
  PHALANX_RETURN_IF_ERROR(open_doors());
  PHALANX_RETURN_IF_ERROR(watch_signals());
  handles_.push_back(loop_.call_every(supervise::kTickPeriod, [this] {
    loop_.name_callback("tick");
    slots().on_tick();
    dispatcher_->on_tick();
    fronts_ ? fronts_->on_tick() : prompt_front_->on_tick();
    note_service(service_.tell_kept());
    if (const auto* const longest = loop_.take_new_longest()) {
      obs::log_debug(
          "longest_callback",
          {{"callback", longest->longest_name}, {"cpu_us", to_microseconds(longest->longest)}});
    }
  }));
  if (plan_.arena_bytes(options_) > 0) {
    load_weights();
  } else {
    on_weights(os::Memfd());
  }
  loop_.run();
  return std::move(result_);
}

// The replicas' processes start when the weights are there.
void Leader::make_dispatch() {
  fleet::ReplicaStart start = settings::replica_start_of(options_, plan_, workers_);
  dispatch::DispatcherOptions dispatching;
  if (start.bootstrap.prefix_cache) {
    dispatching.prefix_key = start.bootstrap.common.secret;
  }
  replicas_ =
      std::make_unique<fleet::ReplicaHost>(loop_, context_, std::move(start), replica_events());
  dispatching.on_poisoned = desk::dump_poisoned(options_.dump_dir);
  dispatching.on_more = [this] {
    loop_.post([this] {
      loop_.name_callback("dispatch");
      dispatcher_->dispatch_more();
    });
  };
  dispatcher_ = std::make_unique<dispatch::Dispatcher>(
      router_,
      [this](ReplicaId replica, const wire::LeaderMessage& message) {
        return replicas_->send(replica, message);
      },
      running_clock(),
      std::move(dispatching));
}

Status Leader::watch_signals() {
  PHALANX_TRY(signals_, os::HeldSignals::open());
  PHALANX_TRY(auto watch, loop_.watch_readable(signals_.fd(), [this] {
    loop_.name_callback("signal");
    while (const int signal = signals_.take()) {
      on_signal(signal);
    }
  }));
  handles_.push_back(std::move(watch));
  return ok();
}

void Leader::on_signal(int signal) {
  last_signal_ = signal;
  const fleet::LeaderEvent event = end_signals_.event_of(signal, steady_clock().now());
  if (event == fleet::LeaderEvent::kEnd && life_.phase() != fleet::Phase::kStopping) {
    result_ = end_status(options_, signal);
  }
  life_.post(event);
}

void Leader::perform(fleet::LeaderAction action, const Error* cause) {
  switch (action) {
    case fleet::kNoAction:
      break;
    case fleet::kDropLoader:
      loader_.reset();
      break;
    case fleet::kStartReplicas:
      tell_service("STATUS=starting the replicas");
      replicas_->start(arena_.valid() ? arena_.fd() : -1, lifeline_.read.get());
      break;
    case fleet::kDropRoll:
      slots().drop_roll();
      break;
    case fleet::kRoll:
      obs::log_info("reload", {});
      slots().roll();
      if (fronts_) {
        if (const Status begun = fronts_->renew(""); !begun) {
          obs::log_error("fronts_not_replaced", {{"why", begun.error().message()}});
        }
      }
      break;
    case fleet::kDrain:
      drain();
      break;
    case fleet::kKeepCause:
      result_ = *cause;
      break;
    case fleet::kFailOpen:
      has_last_words_ = true;
      dispatcher_->fail_all(Error(Code::kUnavailable, result_.error().message()));
      break;
    case fleet::kStopReplicas:
      slots().stop_all();
      break;
    case fleet::kKillReplicas:
      obs::log_warn("second_signal", {{"signal", last_signal_}});
      result_ = kSignalExitBase + last_signal_;
      slots().stop_all();
      slots().kill_all();
      has_last_words_ = false;  // nobody waits for them either
      if (finishing_) {
        loop_.stop();
      }
      break;
    case fleet::kIgnoreSignal:
      obs::log_warn("signal_without_effect", {{"signal", last_signal_}, {"state", phase_name()}});
      break;
    case fleet::kFinish:
      finish();
      break;
  }
}

void Leader::load_weights() {
  tell_service("STATUS=loading the weights");
  loader_ = std::make_unique<fleet::WeightLoader>(
      loop_,
      fleet::WeightLoader::Start{
          .spawn = fleet::worker_plan(
              fleet::WorkerRole::kLoader, fleet::loader_wrapper(options_.wrappers), workers_),
          .bootstrap = settings::loader_bootstrap_of(options_, plan_),
          .nodes = settings::weight_nodes_of(plan_),
          .lifeline_pipe = lifeline_.read.get(),
          .patience = from_seconds(options_.start_timeout_s)},
      [this](std::uint64_t done, std::uint64_t total) {
        const int tenths = static_cast<int>(done * 10 / std::max<std::uint64_t>(total, 1));
        if (tenths != std::exchange(printed_tenths_, tenths) && total > (std::uint64_t{64} << 20)) {
          const std::string progress =
              "loading weights: " + std::to_string(tenths * 10) + " % of " + bytes_text(total);
          obs::print_lines(progress);
          tell_service("STATUS=" + progress);
        }
      },
      [this](Result<os::Memfd> arena) { on_weights(std::move(arena)); });
}

void Leader::on_weights(Result<os::Memfd> arena) {
  if (life_.phase() != fleet::Phase::kLoading) {
    return;
  }
  if (!arena) {
    life_.post(fleet::LeaderEvent::kLoadFailed, std::move(arena).error());
    return;
  }
  loader_.reset();
  arena_ = *std::move(arena);
  life_.post(fleet::LeaderEvent::kLoaded);
}

Status Leader::accepting() const {
  switch (life_.phase()) {
    case fleet::Phase::kLoading:
      return unavailable("the model is being loaded; try again later");
    case fleet::Phase::kStarting:
      return unavailable("the replicas are starting; try again later");
    case fleet::Phase::kServing:
    case fleet::Phase::kRolling:
      if (router_.table().all_draining()) {
        return unavailable("every replica is drained; try again later");
      }
      return slots().any_may_serve() ? ok() : Status(unavailable("no replica can serve"));
    case fleet::Phase::kDraining:
    case fleet::Phase::kStopping:
      break;
  }
  return unavailable("the server is shutting down");
}

bool Leader::serves() const {
  return life_.phase() == fleet::Phase::kServing || life_.phase() == fleet::Phase::kRolling;
}

// A replica whose first start fails while another one serves holds nothing up.
void Leader::announce_once() {
  const bool open = offline() || fronts_->ever_ready();
  if (announced_ || !open || !serves() || !slots().start_is_over()) {
    return;
  }
  announced_ = true;
  loop_.reset_callback_times();  // what a start costs keeps no client waiting
  if (offline()) {
    prompt_front_->run();
    return;
  }
  tell_service("READY=1\nSTATUS=ready");
  output_.write(settings::ready_text(options_, fronts_->port(), plan_.model_name),
                [](const Status& written) {
                  if (!written) {
                    obs::log_warn("ready_not_written", {{"error", written.error().message()}});
                  }
                });
}

void Leader::tell_service(const std::string& news) {
  note_service(service_.tell(news));
}

// Somebody waits for what is told; where it does not arrive the log is all there is.
void Leader::note_service(const Status& told) {
  if (!told && !std::exchange(service_is_deaf_, true)) {
    obs::log_warn("service_manager_not_told", {{"error", told.error().message()}});
  }
}

void Leader::end_prompts(Result<std::string> output) {
  const auto end_with = [this](const Status& status) {
    if (!status) {
      result_ = status.error();
    }
    life_.post(fleet::LeaderEvent::kPromptsDone);
  };
  output ? output_.write(*std::move(output), end_with) : end_with(output.error());
}

void Leader::on_replica_failed(const Error& cause) {
  life_.post(fleet::LeaderEvent::kReplicaFailed, cause);
  if (slots().all_failed()) {
    life_.post(fleet::LeaderEvent::kAllFailed,
               unavailable("no replica can be brought back after --restart-intensity " +
                           options_.restart_intensity + "; the last one: " + cause.message()));
  }
  announce_once();
}

std::string Leader::phase_name() const {
  if (life_.phase() == fleet::Phase::kServing && router_.table().ready_count() < slots().size()) {
    return "degraded";
  }
  if (life_.phase() == fleet::Phase::kServing && fronts_ && fronts_->renewing()) {
    return std::string(fleet::to_string(fleet::Phase::kRolling));
  }
  return std::string(fleet::to_string(life_.phase()));
}

wire::AdminAnswer Leader::status() const {
  wire::ServerStatus view = server_view(router_, *dispatcher_, slots(), options_.wrappers);
  if (fronts_) {
    for (const keeper::FrontView& front : fronts_->views()) {
      // That of the quarantine is there when there is a suspect.
      if (!front.is_quarantine || front.slot.state != supervise::State::kStopped) {
        view.fronts.push_back(front_view(front));
      }
    }
  }
  view.model = plan_.model_name;
  view.state = phase_name();
  view.requests_finished = metrics_.finished();
  wire::fit(&view);
  return view;
}

Status Leader::reload(const wire::AdminRequest& request) {
  obs::log_info("operator_command", {{"command", "reload"}, {"fronts", request.fronts}});
  if (!serves()) {
    return failed_precondition("reload: expected a server that serves, found one that is " +
                               phase_name());
  }
  if (request.fronts) {
    return fronts_->renew(request.program);
  }
  life_.post(fleet::LeaderEvent::kHangUp);
  return ok();
}

Status Leader::operate(const wire::AdminRequest& request) {
  const ReplicaId replica(request.replica);
  obs::log_info("operator_command",
                {{"command", admin::to_string(request.command)}, {"replica", replica.value()}});
  if (life_.phase() == fleet::Phase::kLoading) {
    return failed_precondition(std::string(admin::to_string(request.command)) +
                               ": expected replicas that have been started, found a server that is "
                               "loading");
  }
  switch (request.command) {
    case wire::AdminCommand::kDrain:
      return slots().drain(replica);
    case wire::AdminCommand::kResume:
      return slots().resume(replica);
    default:
      return slots().restart(replica);
  }
}

void Leader::answer_admin(const wire::AdminRequest& request,
                          const admin::AdminServer::Reply& reply) {
  if (request.command == wire::AdminCommand::kStatus) {
    reply(status());
    return;
  }
  const Status taken = request.command == wire::AdminCommand::kReload ? reload(request)
                       : admin::takes_replica(request.command)        ? operate(request)
                                                                      : ok();
  reply(admin::answer_of(taken));
}

}  // namespace phalanx::app
