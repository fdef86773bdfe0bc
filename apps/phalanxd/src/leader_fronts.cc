// SPDX-License-Identifier: Apache-2.0
// What clients reach: the doors, the fronts that speak with them, and how both end.
#include <unistd.h>

#include <utility>

#include "phalanx/obs/log.h"
#include "phalanx/os/clock_timer.h"
#include "phalanx/wire/codec.h"

#include "leader.h"
#include "process_metrics.h"

namespace phalanx::app {

namespace {

// For the last words of fronts, which take a second at most.
constexpr auto kLastWordsTime = std::chrono::seconds(3);
constexpr int kCutExitStatus = 75;  // some answers were cut at the shutdown deadline

}  // namespace

// Binds before anything is loaded, so that a taken port is known at once; until replicas are ready
// requests get 503.
Status Leader::open_doors() {
  PHALANX_TRY(keeper::FrontStart start, settings::front_start_of(options_, plan_));
  if (offline()) {
    PHALANX_TRY(keeper::Prompts prompts, settings::prompts_of(options_));
    prompt_front_ = std::make_unique<keeper::PromptFront>(
        loop_,
        std::move(start),
        keeper::FrontsParts{*dispatcher_, admission_, metrics_},
        std::move(prompts),
        prompt_calls());
    prompt_front_->start(tokenizer_.fd(), lifeline_.read.get());
    return ok();
  }
  PHALANX_TRY(fronts_,
              keeper::Fronts::open(loop_,
                                   settings::doors_of(options_),
                                   std::move(start),
                                   {*dispatcher_, admission_, metrics_},
                                   fronts_calls()));
  PHALANX_TRY(admin_,
              admin::AdminServer::listen(loop_,
                                         admin::admin_socket_name(::geteuid(), fronts_->port()),
                                         [this](const wire::AdminRequest& request,
                                                const admin::AdminServer::Reply& reply) {
                                           answer_admin(request, reply);
                                         }));
  // Beside the loading of the weights.
  fronts_->start(tokenizer_.fd(), lifeline_.read.get());
  return ok();
}

keeper::PromptCalls Leader::prompt_calls() {
  keeper::PromptCalls calls;
  calls.on_failed = [this](const Error& cause) { on_fronts_failed(cause); };
  calls.on_end = [this](Result<std::string> output) { end_prompts(std::move(output)); };
  return calls;
}

keeper::FrontsCalls Leader::fronts_calls() {
  keeper::FrontsCalls calls;
  calls.accepting = [this] { return accepting(); };
  calls.answer = [this](wire::QueryKind kind) { return answer(kind); };
  calls.on_ready = [this] { announce_once(); };
  calls.on_failed = [this](const Error& cause) { on_fronts_failed(cause); };
  calls.on_drained = [this] {
    life_.post(fleet::LeaderEvent::kDrained);
    if (finishing_) {
      loop_.stop();
    }
  };
  return calls;
}

void Leader::on_fronts_failed(const Error& cause) {
  const bool loading = life_.phase() == fleet::Phase::kLoading;
  life_.post(loading ? fleet::LeaderEvent::kLoadFailed : fleet::LeaderEvent::kAllFailed, cause);
}

keeper::Answer Leader::answer(wire::QueryKind kind) {
  switch (kind) {
    case wire::QueryKind::kReady: {
      const bool ready = serves() && router_.table().open_count() > 0;
      return {ready ? 200 : 503,
              std::string(R"({"status":")") + (ready ? "ready" : phase_name()) + "\"}"};
    }
    case wire::QueryKind::kHealth:
      return {router_.table().ready_count() > 0 ? 200 : 503, wire::encode(status())};
    case wire::QueryKind::kMetrics:
      break;
  }
  metrics_.refresh(router_, *dispatcher_, slots().reports(), loop_.take_longest_lag());
  refresh_process_metrics(registry_, loop_);
  refresh_front_metrics(registry_, *fronts_);
  return {200, registry_.serialize()};
}

// Clients whose requests have ended with an error hear of it before the fronts end. It may be told
// twice that no replica is left.
void Leader::finish() {
  if (fronts_ == nullptr || !has_last_words_) {
    loop_.stop();
    return;
  }
  if (std::exchange(finishing_, true)) {
    return;
  }
  fronts_->drain();
  fronts_->end_answers();
  call_after(kLastWordsTime, [this] { loop_.stop(); });
}

// Nothing new is accepted; what is open has --shutdown-timeout to end.
void Leader::drain() {
  tell_service("STOPPING=1\nSTATUS=draining");
  obs::log_info(
      "drain",
      {{"open_requests", dispatcher_->requests()}, {"timeout_s", options_.shutdown_timeout_s}});
  if (fronts_ == nullptr) {
    life_.post(fleet::LeaderEvent::kDrained);
    return;
  }
  fronts_->drain();
  call_after(from_seconds(options_.shutdown_timeout_s), [this] {
    if (life_.phase() != fleet::Phase::kDraining) {
      return;
    }
    if (fronts_->unanswered() > 0) {
      result_ = kCutExitStatus;
    }
    dispatcher_->fail_all(
        unavailable("the server is shutting down, and --shutdown-timeout has passed"));
    fronts_->end_answers();
    // A front that does not even end what it has ends with the leader.
    call_after(kLastWordsTime, [this] { life_.post(fleet::LeaderEvent::kDrained); });
  });
}

// While the whole server is stopped nobody can end what is open.
void Leader::call_after(Duration delay, os::EventLoop::Callback callback) {
  handles_.push_back(os::call_after(loop_, running_clock(), delay, std::move(callback)));
}

}  // namespace phalanx::app
