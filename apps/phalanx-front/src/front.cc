// SPDX-License-Identifier: Apache-2.0
#include "front.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "phalanx/front/operator_routes.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/machine.h"
#include "phalanx/os/memfd.h"
#include "phalanx/serving/api_routes.h"
#include "phalanx/tokenizer/tokenizer_source.h"

namespace phalanx::app {

namespace {

constexpr auto kTimesPeriod = std::chrono::seconds(1);

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Result<std::unique_ptr<tokenizer::ChatTemplate>> compile(const tokenizer::Tokenizer& tokenizer,
                                                         const std::string& source) {
  if (source.empty()) {
    return std::unique_ptr<tokenizer::ChatTemplate>();
  }
  PHALANX_TRY(tokenizer::ChatTemplate compiled,
              tokenizer::compile_chat_template(tokenizer, source));
  return std::make_unique<tokenizer::ChatTemplate>(std::move(compiled));
}

std::uint64_t microseconds_of(Duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

}  // namespace

Front::Front(fleet::ChildStart& start, wire::FrontBootstrap bootstrap)
    : start_(start),
      bootstrap_(std::move(bootstrap)),
      pool_(loop_, {.threads = 1, .queue_limit = bootstrap_.max_queued_reqs}),
      long_pool_(loop_, {.threads = 1}) {}

Front::~Front() = default;

Status Front::run() {
  PHALANX_RETURN_IF_ERROR(load_model());
  link_ = std::make_unique<front::LeaderLink>(loop_, start_.control(), link_calls());
  PHALANX_RETURN_IF_ERROR(open_server());
  times_timer_ = loop_.call_every(kTimesPeriod, [this] {
    loop_.name_callback("times");
    tell_times();
  });
  start_.tell(wire::ChildReady{});
  loop_.reset_callback_times();
  loop_.run();
  return ok();
}

Status Front::load_model() {
  PHALANX_TRY(os::UniqueFd fd, start_.take_fd(0));
  PHALANX_TRY(
      const os::Memfd memory,
      os::Memfd::adopt(std::move(fd), static_cast<std::size_t>(bootstrap_.tokenizer_bytes)));
  PHALANX_TRY(const os::Mapping mapping, memory.map(os::Access::kReadOnly));
  const std::span<const std::byte> bytes = mapping.bytes();
  PHALANX_TRY(const tokenizer::TokenizerSource source,
              tokenizer::tokenizer_source_from(
                  {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  PHALANX_TRY(tokenizer_, tokenizer::load_tokenizer(source));
  PHALANX_TRY(chat_template_, compile(*tokenizer_, tokenizer_->chat_template()));
  PHALANX_TRY(tool_template_, compile(*tokenizer_, tokenizer_->tool_use_template()));
  model_.name = bootstrap_.model_name;
  model_.root = bootstrap_.model_root;
  model_.created = bootstrap_.created;
  model_.max_model_len = bootstrap_.max_model_len;
  model_.vocab = bootstrap_.vocab;
  model_.tokenizer = tokenizer_.get();
  model_.chat_template = chat_template_.get();
  model_.tool_template = tool_template_.get();
  model_.default_sampling = bootstrap_.default_sampling;
  model_.end_tokens = bootstrap_.end_tokens;
  return ok();
}

Status Front::open_server() {
  http::ServerOptions options;
  options.limits.body_bytes_max = static_cast<std::size_t>(bootstrap_.max_body_bytes);
  options.on_loopback = bootstrap_.on_loopback;
  options.allowed_hosts = split(bootstrap_.allowed_hosts);
  options.allowed_origins = split(bootstrap_.allowed_origins);
  options.stream_pending_bytes_max = static_cast<std::size_t>(bootstrap_.stream_buffer_bytes);
  options.comment_interval = std::chrono::milliseconds(bootstrap_.comment_ms);
  options.format_error = front::error_response;
  options.on_closed = [this](std::uint64_t id) { link_->send(wire::Disconnected{id}); };
  options.on_released = [this](std::uint64_t id, std::uint64_t received, std::uint64_t sent) {
    link_->send(wire::Released{id, received, sent});
  };
  options.on_rest = [this](std::uint64_t id, std::uint64_t received, std::uint64_t sent) {
    link_->send(wire::AtRest{id, received, sent});
  };
  PHALANX_TRY(server_, http::Server::create(loop_, std::move(options), make_routes()));
  return ok();
}

http::RouteTable Front::make_routes() {
  http::RouteTable routes(front::error_response);
  serving::ApiContext context{
      model_,
      *link_,
      steady_clock(),
      loop_,
      [this](bool is_long, std::function<void()> work, std::function<void()> done) {
        os::WorkPool& pool = is_long ? long_pool_ : pool_;
        return pool.submit(std::move(work), std::move(done)).has_value();
      }};
  context.strict_api = bootstrap_.strict_api;
  context.draw_seed = os::random_u64;
  context.first_comment = std::chrono::milliseconds(bootstrap_.comment_ms);
  serving::add_api_routes(&routes, context);
  front::add_operator_routes(&routes, *link_, [this] { tell_times(); });
  return routes;
}

front::LinkCalls Front::link_calls() {
  front::LinkCalls calls;
  calls.on_connect = [this](const wire::Connect& connection, os::UniqueFd socket) {
    server_->adopt(
        std::move(socket),
        {connection.connection, connection.peer, connection.refusal, connection.goes_on});
  };
  calls.on_drain = [this](bool answers_end) { drain(answers_end); };
  calls.on_retire = [this] { server_->release_all(); };
  calls.on_broken = [](const Error& error) {
    // At once, as a death: nothing here may still speak with a client.
    obs::log_error("link_broken", {{"error", error.to_string()}});
    ::_exit(error_traits(error.code()).exit_status);
  };
  return calls;
}

void Front::drain(bool answers_end) {
  if (answers_end) {
    server_->end_answers();
    return;
  }
  server_->close([] {});
}

void Front::tell_times() {
  const os::EventLoop::CallbackTimes& times = loop_.callback_times();
  if (times.longest > std::max(longest_told_, os::EventLoop::kCallbackTimeMax)) {
    longest_told_ = times.longest;
    obs::log_debug("longest_callback",
                   {{"callback", times.longest_name}, {"cpu_us", microseconds_of(times.longest)}});
  }
  link_->send(wire::FrontTimes{microseconds_of(times.longest),
                               times.too_long,
                               microseconds_of(loop_.take_longest_lag()),
                               obs::log_lines_dropped()});
}

}  // namespace phalanx::app
