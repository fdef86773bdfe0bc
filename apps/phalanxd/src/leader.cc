// SPDX-License-Identifier: Apache-2.0
#include "leader.h"

#include <unistd.h>

#include <csignal>
#include <iostream>
#include <utility>

#include "phalanx/admin/commands.h"
#include "phalanx/base/version.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/child_side.h"
#include "phalanx/os/machine.h"
#include "phalanx/serving/api_routes.h"
#include "phalanx/serving/poison_dump.h"
#include "phalanx/wire/limits.h"

#include "doors.h"
#include "fleet_port.h"
#include "leader_view.h"
#include "offline_run.h"
#include "roles.h"

namespace phalanx::app {

namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr int kCutExitStatus = 75;    // some answers were cut at the shutdown deadline
constexpr int kSignalExitBase = 128;  // a second signal ended the server at once

}  // namespace

Leader::Leader(const Options& options, LeaderPlan plan, ipc::ZmqContext context)
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
    replicas_->on_tick();
    dispatcher_->on_tick();
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

fleet::ReplicaEvents Leader::replica_events() {
  fleet::ReplicaEvents events;
  events.on_ready = [this](ReplicaId replica, std::uint64_t numerics_fingerprint) {
    dispatch::ReplicaEntry& entry = router_.table().at(replica);
    entry.numerics_fingerprint = numerics_fingerprint;
    entry.ready = true;
    on_replica_ready(replica);
  };
  events.on_down = [this](ReplicaId replica) { router_.table().at(replica).ready = false; };
  events.on_lost = [this](ReplicaId replica) {
    router_.table().at(replica).ready = false;
    metrics_.forget_replica(replica);
    dispatcher_->on_replica_lost(replica);
  };
  events.on_died = [this](ReplicaId replica, bool own, const std::string& how) {
    return dispatcher_->on_replica_died(replica, own, how);
  };
  events.on_draining = [this](ReplicaId replica, bool draining) {
    router_.table().at(replica).draining = draining;
  };
  events.on_tokens = [this](ReplicaId replica, const wire::TokenBatch& batch) {
    dispatcher_->on_token_batch(replica, batch);
  };
  events.on_holding = [this](ReplicaId replica, const wire::ReplicaHolding& holding) {
    dispatcher_->on_holding(replica, holding);
  };
  events.on_failed = [this](ReplicaId replica, const Error& cause) {
    dispatcher_->on_replica_failed(replica);
    on_replica_failed(cause);
  };
  events.on_stopped = [this] { loop_.stop(); };
  return events;
}

// Makes the parts around the replicas; the processes start when the weights are there.
void Leader::start_replicas() {
  replicas_ = std::make_unique<fleet::ReplicaHost>(
      loop_, context_, replica_start_of(options_, plan_), replica_events());
  port_ = std::make_unique<FleetPort>(*replicas_);
  dispatch::DispatcherOptions dispatching;
  dispatching.on_poisoned = serving::dump_poisoned(options_.dump_dir);
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
    const Status status = phase_ == Phase::kDraining ? unavailable("draining") : ok();
    const bool ready = status && router_.table().open_count() > 0;
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
    metrics_.refresh(router_, *dispatcher_, replicas_->reports(), loop_.take_longest_lag());
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
  if (signal == SIGHUP) {
    obs::log_info("reload", {});
    replicas_->rolling_restart();
    return;
  }
  if (phase_ == Phase::kDraining || phase_ == Phase::kStopping) {
    obs::log_warn("second_signal", {{"signal", signal}});
    result_ = kSignalExitBase + signal;
    phase_ = Phase::kStopping;
    replicas_->stop_all();
    replicas_->kill_all();
    return;
  }
  drain();
}

void Leader::load_weights() {
  wire::LoaderBootstrap bootstrap;
  bootstrap.common.protocol = wire::kProtocolVersion;
  bootstrap.common.log_level = options_.log_level;
  bootstrap.model_path = options_.model;
  bootstrap.arena_bytes = plan_.arena_bytes;
  loader_ = std::make_unique<fleet::WeightLoader>(
      loop_,
      spawn_plan("loader node0"),
      std::move(bootstrap),
      lifeline_read_.get(),
      seconds_of(options_.start_timeout_s),
      [this](std::uint64_t done, std::uint64_t total) {
        const int tenths = static_cast<int>(done * 10 / std::max<std::uint64_t>(total, 1));
        if (tenths != std::exchange(printed_tenths_, tenths) && total > (std::uint64_t{64} << 20)) {
          std::cerr << "loading weights: " << tenths * 10 << " % of " << model::bytes_text(total)
                    << std::endl;
        }
      },
      [this](Result<os::Memfd> arena) { on_weights(std::move(arena)); });
}

void Leader::on_weights(Result<os::Memfd> arena) {
  if (phase_ != Phase::kLoading) {
    return;
  }
  if (!arena) {
    end(std::move(arena).error());
    return;
  }
  loader_.reset();
  arena_ = *std::move(arena);
  phase_ = Phase::kStarting;
  replicas_->start(arena_.valid() ? arena_.fd() : -1, lifeline_read_.get());
}

Status Leader::accepting() const {
  switch (phase_) {
    case Phase::kLoading:
      return unavailable("the model is being loaded; try again later");
    case Phase::kStarting:
      return router_.table().ready_count() > 0
                 ? ok()
                 : Status(unavailable("the replicas are starting; try again later"));
    case Phase::kServing:
      if (router_.table().all_draining()) {
        return unavailable("every replica is drained; try again later");
      }
      return replicas_->any_may_serve() ? ok() : Status(unavailable("no replica can serve"));
    default:
      return unavailable("the server is shutting down");
  }
}

void Leader::on_replica_ready(ReplicaId replica) {
  dispatcher_->on_replica_ready(replica);
  if (phase_ == Phase::kStarting && replicas_->all_ready()) {
    phase_ = Phase::kServing;
    announce();
  }
}

void Leader::announce() {
  loop_.reset_callback_times();  // what a start costs keeps no client waiting
  if (offline()) {
    offline_ = std::make_unique<OfflineRun>(
        options_, plan_.model, *dispatcher_, [this](Result<int> result) {
          result_ = std::move(result);
          stop_replicas();
        });
    offline_->start();
    return;
  }
  const bool is_ipv6 = options_.host.find(':') != std::string::npos;
  const std::string host = is_ipv6 ? "[" + options_.host + "]" : options_.host;
  const std::string url = "http://" + host + ":" + std::to_string(server_->port());
  std::cout << "ready " << url << "\n"
            << "try: curl " << url
            << "/v1/chat/completions -H 'content-type: application/json' -d '{\"model\": \""
            << plan_.model.name
            << "\", \"messages\": [{\"role\": \"user\", \"content\": \"count from 3 to 40\"}]}'"
            << std::endl;
}

void Leader::on_replica_failed(const Error& cause) {
  last_failure_ = cause;
  if (phase_ == Phase::kStarting) {
    end(cause);  // a start that fails is torn down once, whatever the other replicas do
    return;
  }
  if (phase_ == Phase::kServing && replicas_->all_failed()) {
    end(unavailable("no replica can be brought back after --restart-intensity " +
                    options_.restart_intensity + "; the last one: " + cause.message()));
  }
}

// Nothing new is accepted; what is open has --shutdown-timeout to end.
void Leader::drain() {
  obs::log_info(
      "drain",
      {{"open_requests", dispatcher_->requests()}, {"timeout_s", options_.shutdown_timeout_s}});
  if (phase_ != Phase::kServing || server_ == nullptr) {
    stop_replicas();
    return;
  }
  phase_ = Phase::kDraining;
  const auto end_answers = [this] {
    dispatcher_->fail_all(
        unavailable("the server is shutting down, and --shutdown-timeout has passed"));
  };
  server_->close(seconds_of(options_.shutdown_timeout_s), end_answers, [this](std::size_t cut) {
    cut_ = cut;
    if (cut > 0) {
      result_ = kCutExitStatus;
    }
    stop_replicas();
  });
}

void Leader::stop_replicas() {
  phase_ = Phase::kStopping;
  loader_.reset();
  replicas_->stop_all();
}

void Leader::end(Result<int> result) {
  if (phase_ == Phase::kStopping) {
    return;
  }
  result_ = std::move(result);
  if (!result_) {
    dispatcher_->fail_all(Error(Code::kUnavailable, result_.error().message()));
  }
  stop_replicas();
}

std::string Leader::phase_name() const {
  switch (phase_) {
    case Phase::kLoading:
      return "loading";
    case Phase::kStarting:
      return "starting";
    case Phase::kServing:
      return router_.table().ready_count() == replicas_->size() ? "serving" : "degraded";
    case Phase::kDraining:
      return "draining";
    case Phase::kStopping:
      return "stopping";
  }
  return "unknown";
}

std::string Leader::status_text() const {
  admin::ServerView view = server_view(router_, *dispatcher_, *replicas_);
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
    status = command->name == "drain"    ? replicas_->drain(replica)
             : command->name == "resume" ? replicas_->resume(replica)
                                         : replicas_->restart(replica);
  }
  reply(status ? admin::admin_ok() : admin::admin_error(status.error()));
}

}  // namespace phalanx::app
