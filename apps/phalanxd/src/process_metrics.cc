// SPDX-License-Identifier: Apache-2.0
#include "process_metrics.h"

#include <chrono>
#include <ctime>
#include <string>

#include "phalanx/base/clock.h"
#include "phalanx/base/version.h"
#include "phalanx/obs/log.h"

namespace phalanx::app {

namespace {

// Before main().
const std::chrono::system_clock::time_point kStarted = std::chrono::system_clock::now();

double process_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

void refresh_process_metrics(obs::MetricRegistry& registry, const os::EventLoop& loop) {
  const obs::Readings readings(registry);
  const os::EventLoop::CallbackTimes& times = loop.callback_times();
  readings.with("version", std::string(kVersion))
      .gauge("phalanx_build_info", "1; its label says which version this is", 1);
  readings.gauge("process_start_time_seconds",
                 "When the leader began, in seconds since the beginning of 1970, UTC",
                 std::chrono::duration<double>(kStarted.time_since_epoch()).count());
  readings.counter("process_cpu_seconds_total",
                   "CPU time of the leader alone, without its fronts and replicas",
                   process_cpu_seconds());
  readings.gauge(
      "phalanx_loop_callback_seconds_max",
      "Most CPU time that one callback took on the leader's loop since the server is ready",
      to_seconds(times.longest));
  readings.counter("phalanx_loop_long_callbacks_total",
                   "Callbacks that took more than 2 ms of CPU time on the leader's loop",
                   times.too_long);
  readings.counter("phalanx_log_lines_dropped_total",
                   "Log lines of the leader that found no room where standard error goes",
                   obs::log_lines_dropped());
}

void refresh_front_metrics(obs::MetricRegistry& registry, const keeper::Fronts& fronts) {
  const obs::Readings all(registry);
  all.counter("phalanx_connections_kept_total",
              "Connections that were at rest and went on when their front had died",
              fronts.left_connections().kept);
  all.counter("phalanx_connections_resumed_total",
              "Connections that went on in the middle of a request or of an answer when their "
              "front had died",
              fronts.left_connections().resumed);
  all.counter("phalanx_connections_cut_total",
              "Connections that ended with their front",
              fronts.left_connections().cut);
  all.gauge("phalanx_suspects",
            "Connections that a front may have died of: served alone, or waiting for that",
            fronts.suspects());
  std::size_t number = 0;
  for (const keeper::FrontView& front : fronts.views()) {
    const obs::Readings readings =
        all.with("front", front.is_quarantine ? "quarantine" : std::to_string(number++));
    readings.gauge("phalanx_front_ready",
                   "1 while the front speaks with clients",
                   front.slot.state == supervise::State::kReady);
    readings.counter("phalanx_front_restarts_total",
                     "Starts of the front after the first one",
                     front.slot.restarts);
    readings.gauge(
        "phalanx_front_connections", "Connections that the front has", front.connections);
    readings.gauge("phalanx_front_loop_callback_seconds_max",
                   "Most CPU time that one callback took on the front's loop since it is ready",
                   static_cast<double>(front.times.longest_callback_us) * 1e-6);
    readings.counter("phalanx_front_loop_long_callbacks_total",
                     "Callbacks that took more than 2 ms of CPU time on the front's loop",
                     front.times.long_callbacks);
    readings.gauge("phalanx_front_loop_lag_seconds",
                   "Longest time of the last second that the front's loop stood still",
                   static_cast<double>(front.times.longest_lag_us) * 1e-6);
    readings.counter("phalanx_front_log_lines_dropped_total",
                     "Log lines of the front that found no room where standard error goes",
                     front.times.log_lines_dropped);
  }
}

}  // namespace phalanx::app
