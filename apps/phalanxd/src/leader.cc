// SPDX-License-Identifier: Apache-2.0
#include "leader.h"

#include <unistd.h>

#include <csignal>
#include <utility>

#include "phalanx/admin/commands.h"
#include "phalanx/base/version.h"
#include "phalanx/fleet/worker_command.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/child_side.h"
#include "phalanx/os/machine.h"
#include "phalanx/serving/api_routes.h"
#include "phalanx/serving/poison_dump.h"

#include "doors.h"
#include "fleet_port.h"
#include "leader_view.h"

namespace phalanx::app {

namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr int kCutExitStatus = 75;    // some answers were cut at the shutdown deadline
constexpr int kSignalExitBase = 128;  // a second signal ended the server at once

}  // namespace

Leader::Leader(const settings::Options& options, settings::LeaderPlan plan, ipc::ZmqContext context)
    : options_(options),
      plan_(std::move(plan)),
      context_(std::move(context)),
      pool_(loop_,
            {.threads = 1, .queue_limit = static_cast<std::size_t>(options.max_num_queued_reqs)}),
      long_pool_(loop_, {.threads = 1}),
      router_(static_cast<std::size_t>(options.dp),
              *dispatch::make_policy(options.routing_policy, os::random_u64()),
              {}),
      admission_({static_cast<std::uint64_t>(options.max_num_queued_reqs),
                  static_cast<std::uint64_t>(options.max_num_queued_tokens)}),
      metrics_(registry_, plan_.model.name) {}

Leader::~Leader() = default;

Result<int> Leader::run() {
  PHALANX_RETURN_IF_ERROR(os::become_subreaper());
  PHALANX_RETURN_IF_ERROR(open_lifeline_pipe());
  start_replicas();
  PHALANX_RETURN_IF_ERROR(open_doors());
  watch_signals();
  handles_.push_back(loop_.call_every(kTick, [this] {
    loop_.name_callback("tick");
    slots().on_tick();
    dispatcher_->on_tick();
    log_longest_callback(loop_, &longest_told_);
  }));
  if (plan_.arena_bytes > 0) {
    load_weights();
  } else {
    on_weights(os::Memfd());
  }
  loop_.run();
  return std::move(result_);
}

Status Leader::open_lifeline_pipe() {
  PHALANX_TRY(os::Pipe pipe, os::make_pipe());
  lifeline_read_ = std::move(pipe.read);
  lifeline_write_ = std::move(pipe.write);
  return ok();
}

// Makes the parts around the replicas; the processes start when the weights are there.
void Leader::start_replicas() {
  replicas_ = std::make_unique<fleet::ReplicaHost>(
      loop_, context_, settings::replica_start_of(options_, plan_), replica_events());
  port_ = std::make_unique<FleetPort>(*replicas_);
  dispatch::DispatcherOptions dispatching;
  dispatching.on_poisoned = serving::dump_poisoned(options_.dump_dir);
  dispatching.on_more = [this] {
    loop_.post([this] {
      loop_.name_callback("dispatch");
      dispatcher_->dispatch_more();
    });
  };
  dispatcher_ = std::make_unique<dispatch::Dispatcher>(
      router_, *port_, steady_clock(), std::move(dispatching));
}

// Binds before anything is loaded, so that a taken port is known at once; until replicas are ready
// requests get 503.
Status Leader::open_doors() {
  if (offline()) {
    return ok();
  }
  PHALANX_TRY(server_, http::Server::listen(loop_, server_options(options_), make_routes()));
  PHALANX_TRY(admin_,
              admin::AdminServer::listen(
                  loop_,
                  admin::admin_socket_name(::geteuid(), server_->port()),
                  [this](const std::string& line, const admin::AdminServer::Reply& reply) {
                    answer_admin(line, reply);
                  }));
  return ok();
}

http::RouteTable Leader::make_routes() {
  http::RouteTable routes(error_response);
  serving::ApiContext context{
      plan_.model,
      *dispatcher_,
      admission_,
      metrics_,
      steady_clock(),
      loop_,
      [this] { return accepting(); },
      [this](bool is_long, std::function<void()> work, std::function<void()> done) {
        os::WorkPool& pool = is_long ? long_pool_ : pool_;
        return pool.submit(std::move(work), std::move(done)).has_value();
      }};
  context.strict_api = options_.strict_api;
  context.draw_seed = os::random_u64;
  context.first_comment = seconds_of(options_.keep_alive_comment_s);
  serving::add_api_routes(&routes, context);
  add_operator_routes(&routes);
  return routes;
}

void Leader::add_operator_routes(http::RouteTable* routes) {
  using Exchange = std::shared_ptr<http::Exchange>;
  routes->add("GET", "/live", [](const http::Request&, const Exchange& exchange) {
    exchange->respond(
        http::json_response(200, R"({"status":"live"})"));  // the loop turns: it has answered
  });
  routes->add("GET", "/ready", [this](const http::Request&, const Exchange& exchange) {
    const bool ready = serves() && router_.table().open_count() > 0;
    http::Response response = http::json_response(
        ready ? 200 : 503,
        std::string(R"({"status":")") + (ready ? "ready" : phase_name()) + "\"}");
    if (!ready) {
      response.headers.set("retry-after", "2");
    }
    exchange->respond(std::move(response));
  });
  routes->add("GET", "/health", [this](const http::Request&, const Exchange& exchange) {
    const bool healthy = router_.table().ready_count() > 0;
    http::Response response = http::json_response(healthy ? 200 : 503, status_text());
    if (!healthy) {
      response.headers.set("retry-after", "2");
    }
    exchange->respond(std::move(response));
  });
  routes->add("GET", "/version", [](const http::Request&, const Exchange& exchange) {
    exchange->respond(
        http::json_response(200, std::string(R"({"version":")") + std::string(kVersion) + "\"}"));
  });
  routes->add("GET", "/metrics", [this](const http::Request&, const Exchange& exchange) {
    metrics_.refresh(router_, *dispatcher_, slots().reports(), loop_.take_longest_lag());
    refresh_process_metrics(registry_, loop_);
    exchange->respond(http::text_response(
        200, registry_.serialize(), "text/plain; version=0.0.4; charset=utf-8"));
  });
}

void Leader::watch_signals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    handles_.push_back(loop_.watch_signal(signal, [this](int number) { on_signal(number); }));
  }
}

void Leader::on_signal(int signal) {
  last_signal_ = signal;
  life_.post(end_signals_.event_of(signal, steady_clock().now()));
}

void Leader::perform(fleet::LeaderAction action, const Error* cause) {
  switch (action) {
    case fleet::kNoAction:
      break;
    case fleet::kDropLoader:
      loader_.reset();
      break;
    case fleet::kStartReplicas:
      replicas_->start(arena_.valid() ? arena_.fd() : -1, lifeline_read_.get());
      break;
    case fleet::kDropRoll:
      slots().drop_roll();
      break;
    case fleet::kRoll:
      obs::log_info("reload", {});
      slots().roll();
      break;
    case fleet::kDrain:
      drain();
      break;
    case fleet::kKeepCause:
      result_ = *cause;
      break;
    case fleet::kFailOpen:
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
      break;
    case fleet::kIgnoreSignal:
      obs::log_warn("signal_without_effect", {{"signal", last_signal_}, {"state", phase_name()}});
      break;
    case fleet::kFinish:
      loop_.stop();
      break;
  }
}

void Leader::load_weights() {
  loader_ = std::make_unique<fleet::WeightLoader>(
      loop_,
      fleet::worker_plan(fleet::WorkerRole::kLoader, fleet::loader_wrapper(options_.wrappers)),
      settings::loader_bootstrap_of(options_, plan_),
      lifeline_read_.get(),
      seconds_of(options_.start_timeout_s),
      [this](std::uint64_t done, std::uint64_t total) {
        const int tenths = static_cast<int>(done * 10 / std::max<std::uint64_t>(total, 1));
        if (tenths != std::exchange(printed_tenths_, tenths) && total > (std::uint64_t{64} << 20)) {
          obs::print_lines("loading weights: " + std::to_string(tenths * 10) + " % of " +
                           model::bytes_text(total));
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
  if (announced_ || !serves() || !slots().start_is_over()) {
    return;
  }
  announced_ = true;
  loop_.reset_callback_times();  // what a start costs keeps no client waiting
  if (offline()) {
    start_prompts();
    return;
  }
  print_ready(options_, server_->port(), plan_.model.name);
}

void Leader::start_prompts() {
  offline_ = std::make_unique<serving::OfflineRun>(
      settings::offline_of(options_), plan_.model, *dispatcher_, [this](Result<int> result) {
        result_ = std::move(result);
        life_.post(fleet::LeaderEvent::kPromptsDone);
      });
  offline_->start();
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

// Nothing new is accepted; what is open has --shutdown-timeout to end.
void Leader::drain() {
  obs::log_info(
      "drain",
      {{"open_requests", dispatcher_->requests()}, {"timeout_s", options_.shutdown_timeout_s}});
  if (server_ == nullptr) {
    life_.post(fleet::LeaderEvent::kDrained);
    return;
  }
  const auto end_answers = [this] {
    dispatcher_->fail_all(
        unavailable("the server is shutting down, and --shutdown-timeout has passed"));
  };
  server_->close(seconds_of(options_.shutdown_timeout_s), end_answers, [this](std::size_t cut) {
    if (cut > 0 && life_.phase() == fleet::Phase::kDraining) {
      result_ = kCutExitStatus;
    }
    life_.post(fleet::LeaderEvent::kDrained);
  });
}

std::string Leader::phase_name() const {
  if (life_.phase() == fleet::Phase::kServing && router_.table().ready_count() < slots().size()) {
    return "degraded";
  }
  return std::string(fleet::to_string(life_.phase()));
}

std::string Leader::status_text() const {
  admin::ServerView view = server_view(router_, *dispatcher_, slots(), options_.wrappers);
  view.model = plan_.model.name;
  view.phase = phase_name();
  view.requests_finished = metrics_.finished();
  return admin::status_json(view);
}

void Leader::answer_admin(const std::string& line, const admin::AdminServer::Reply& reply) {
  const auto command = admin::parse_admin_command(line);
  if (!command) {
    reply(admin::admin_error(command.error()));
    return;
  }
  if (command->name == "status") {
    reply(status_text());
    return;
  }
  Status status;
  if (command->name != "ping") {
    const ReplicaId replica(command->replica);
    obs::log_info("operator_command", {{"command", command->name}, {"replica", replica.value()}});
    status = command->name == "drain"    ? slots().drain(replica)
             : command->name == "resume" ? slots().resume(replica)
                                         : slots().restart(replica);
  }
  reply(status ? admin::admin_ok() : admin::admin_error(status.error()));
}

}  // namespace phalanx::app
