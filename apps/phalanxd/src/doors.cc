// SPDX-License-Identifier: Apache-2.0
#include "doors.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "phalanx/obs/log.h"
#include "phalanx/openai/api_error.h"

namespace phalanx::app {

Duration seconds_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

http::Response error_response(int status, const std::string& message) {
  return http::json_response(status, openai::error_body(openai::from_http_status(status, message)));
}

http::ServerOptions server_options(const settings::Options& given) {
  http::ServerOptions options;
  options.address = given.host;
  options.port = static_cast<std::uint16_t>(given.port);
  options.limits.body_bytes_max = static_cast<std::size_t>(given.max_body_bytes);
  options.connections_max = static_cast<std::size_t>(given.max_connections);
  options.connections_per_address_max = static_cast<std::size_t>(given.max_connections_per_address);
  options.allowed_hosts = settings::split_list(given.allowed_hosts);
  options.allowed_origins = settings::split_list(given.allowed_origins);
  options.stream_pending_bytes_max = static_cast<std::size_t>(given.stream_buffer_bytes);
  options.comment_interval = seconds_of(given.keep_alive_comment_s);
  options.format_error = error_response;
  return options;
}

void refresh_process_metrics(obs::MetricRegistry& registry, const os::EventLoop& loop) {
  const os::EventLoop::CallbackTimes& times = loop.callback_times();
  registry
      .gauge("phalanx_loop_callback_seconds_max",
             "Most CPU time that one callback took on the leader's loop since the server is ready")
      .set(std::chrono::duration<double>(times.longest).count());
  registry
      .gauge("phalanx_loop_long_callbacks",
             "Callbacks that took more than 2 ms of CPU time on the leader's loop")
      .set(static_cast<double>(times.too_long));
  registry
      .gauge("phalanx_log_lines_dropped",
             "Log lines of the leader that found no room where standard error goes")
      .set(static_cast<double>(obs::log_lines_dropped()));
}

void log_longest_callback(const os::EventLoop& loop, Duration* told) {
  const os::EventLoop::CallbackTimes& times = loop.callback_times();
  const bool is_longer = times.longest > std::max(*told, os::EventLoop::kCallbackTimeMax);
  *told = times.longest;  // shorter than before once the times were reset
  if (!is_longer) {
    return;
  }
  obs::log_debug(
      "longest_callback",
      {{"callback", times.longest_name},
       {"cpu_us", std::chrono::duration_cast<std::chrono::microseconds>(times.longest).count()}});
}

void print_ready(const settings::Options& options, std::uint16_t port, const std::string& model) {
  const bool is_ipv6 = options.host.find(':') != std::string::npos;
  const std::string host = is_ipv6 ? "[" + options.host + "]" : options.host;
  const std::string url = "http://" + host + ":" + std::to_string(port);
  std::cout << "ready " << url << "\n"
            << "try: curl " << url
            << "/v1/chat/completions -H 'content-type: application/json' -d '{\"model\": \""
            << model
            << "\", \"messages\": [{\"role\": \"user\", \"content\": \"count from 3 to 40\"}]}'"
            << std::endl;
}

}  // namespace phalanx::app
