// SPDX-License-Identifier: Apache-2.0
#include "connection.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "phalanx/base/check.h"
#include "phalanx/http/sse.h"

#include "exchange_handle.h"
#include "response_head.h"

namespace phalanx::http {
namespace {

// One client may not keep the loop from the others.
constexpr int kReadsPerTurn = 4;

// How long a client may take to read a refusal before the connection is closed on it. Closing at
// once would reset the connection, and the reset would overtake the answer.
constexpr Duration kLingerTime = std::chrono::seconds(2);

constexpr std::size_t kKeptBufferBytes = 4096;

SteadyTime now() {
  return steady_clock().now();
}

bool usable_request_id(const std::string* id) {
  return id != nullptr && !id->empty() && id->size() <= 128 &&
         std::all_of(id->begin(), id->end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

std::string drawn_request_id(std::uint64_t& counter) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), ++counter, 16).ptr;
  return "req-" + std::string(digits.data(), end);
}

}  // namespace

Connection::Connection(std::shared_ptr<ServerCore> core, Tcp::socket socket)
    : core_(std::move(core)), socket_(std::move(socket)), reader_(core_->options.limits) {
  SystemError ignored;
  socket_.non_blocking(true, ignored);
  // An event of a stream must not wait for the acknowledgement of the one before it.
  socket_.set_option(Tcp::no_delay(true), ignored);
  const Tcp::endpoint peer = socket_.remote_endpoint(ignored);
  peer_ = peer.address().to_string() + ":" + std::to_string(peer.port());
}

void Connection::start() {
  enter(Phase::kIdle, core_->options.header_timeout);
  wait_readable();
}

void Connection::start_refused() {
  ++core_->counters.connections_refused;
  refuse(503,
         "the server has its " + std::to_string(core_->options.connections_max) +
             " connections; try again later");
}

void Connection::wait_readable() {
  const bool buffer_full = in_.size() >= core_->options.limits.header_bytes_max;
  if (reading_ || phase_ == Phase::kClosed || (phase_ == Phase::kAnswering && buffer_full)) {
    return;
  }
  reading_ = true;
  socket_.async_wait(Tcp::socket::wait_read, [self = shared_from_this()](SystemError error) {
    self->reading_ = false;
    if (error || self->phase_ == Phase::kClosed) {
      return;
    }
    self->on_readable();
  });
}

void Connection::on_readable() {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    SystemError error;
    const std::size_t count = socket_.read_some(asio::buffer(core_->scratch), error);
    if (error == asio::error::would_block) {
      break;
    }
    if (error) {
      return on_peer_closed();
    }
    if (phase_ == Phase::kLingering) {
      continue;
    }
    in_.append(core_->scratch.data(), count);
    pump();
    if (phase_ == Phase::kClosed) {
      return;
    }
    if (count < core_->scratch.size() || in_.size() >= core_->options.limits.header_bytes_max) {
      break;
    }
  }
  wait_readable();
}

void Connection::on_peer_closed() {
  if (answer_ == Answer::kNone && !output_.empty()) {
    // The answer is complete and on its way: a client that only ended its sending side still reads.
    keep_alive_ = false;
    return;
  }
  abort();
}

void Connection::pump() {
  if (pumping_) {
    return;
  }
  pumping_ = true;
  bool goes_on = true;
  while (goes_on && phase_ <= Phase::kBody && output_.empty() && !in_.empty()) {
    goes_on = read_request();
  }
  pumping_ = false;
  if (in_.empty() && in_.capacity() > kKeptBufferBytes) {
    std::string().swap(in_);
  }
}

// Returns whether another request may be complete in the buffer.
bool Connection::read_request() {
  in_.erase(0, reader_.feed(in_));
  switch (reader_.state()) {
    case RequestReader::State::kHeader:
      if (phase_ == Phase::kIdle && reader_.started()) {
        enter(Phase::kHeader, core_->options.header_timeout);
      }
      return false;
    case RequestReader::State::kBody:
      if (phase_ != Phase::kBody) {
        enter(Phase::kBody, core_->options.body_timeout);
      }
      if (account_body() && reader_.take_expects_continue()) {
        output_.push(std::string(kContinue));
        flush();
      }
      return false;
    case RequestReader::State::kRefused:
      refuse(reader_.refusal().status, reader_.refusal().message);
      return false;
    case RequestReader::State::kComplete:
      dispatch();
      return true;
  }
  return false;
}

bool Connection::account_body() {
  const std::size_t held = reader_.body_bytes();
  core_->body_bytes += held - body_bytes_;
  body_bytes_ = held;
  if (core_->body_bytes <= core_->options.body_bytes_total_max) {
    return true;
  }
  refuse(503, "the server is receiving too many large requests; try again later");
  return false;
}

void Connection::release_body() {
  core_->body_bytes -= body_bytes_;
  body_bytes_ = 0;
}

void Connection::dispatch() {
  release_body();
  keep_alive_ = reader_.keep_alive();
  http_1_1_ = reader_.is_http_1_1();
  Request request = reader_.take();
  const std::string* id = request.headers.find("x-request-id");
  request_id_ = usable_request_id(id) ? *id : drawn_request_id(core_->next_request_id);
  request.id = request_id_;
  request.peer = peer_;
  head_only_ = request.method == "HEAD";
  chunked_ = false;
  is_sse_ = false;
  phase_ = Phase::kAnswering;
  answer_ = Answer::kAwaited;
  ++serial_;
  ++core_->exchanges;
  ++core_->counters.requests;
  auto handle = std::make_shared<ExchangeHandle>(shared_from_this(), core_, serial_);
  core_->handler(std::move(request), std::move(handle));
}

void Connection::refuse(int status, const std::string& message) {
  ++core_->counters.requests_refused;
  release_body();
  keep_alive_ = false;
  head_only_ = false;
  http_1_1_ = true;
  request_id_.clear();
  phase_ = Phase::kAnswering;
  Response response = core_->error_response(status, message);
  if (status == 503) {
    response.headers.set("retry-after", "1");
  }
  send(std::move(response));
}

void Connection::send(Response response) {
  keep_alive_ = keep_alive_ && !core_->draining;
  const bool bodiless = is_bodiless(response.status);
  Framing framing;
  framing.keep_alive = keep_alive_;
  framing.http_1_1 = http_1_1_;
  framing.request_id = request_id_;
  if (!bodiless) {
    framing.content_length = response.body.size();
  }
  output_.push(response_head(response.status, response.headers, framing));
  if (!bodiless && !head_only_) {
    output_.push(std::move(response.body));
  }
  flush();
}

bool Connection::is_current(std::uint64_t serial) const {
  return answer_ != Answer::kNone && serial == serial_;
}

void Connection::respond(std::uint64_t serial, Response response) {
  if (!is_current(serial)) {
    return;
  }
  PHALANX_CHECK(answer_ == Answer::kAwaited, "respond() after start_stream()");
  complete_answer();
  send(std::move(response));
}

void Connection::start_stream(std::uint64_t serial, int status, Headers headers) {
  if (!is_current(serial)) {
    return;
  }
  PHALANX_CHECK(answer_ == Answer::kAwaited, "start_stream() called twice");
  PHALANX_CHECK(!is_bodiless(status), "a stream with a status that has no body");
  answer_ = Answer::kStreaming;
  chunked_ = http_1_1_;
  // A client of HTTP/1.0 knows no chunks: for it the end of the connection ends the body.
  keep_alive_ = keep_alive_ && chunked_ && !core_->draining;
  const std::string* type = headers.find("content-type");
  is_sse_ = type != nullptr && type->starts_with("text/event-stream");
  last_write_ = now();
  output_.push(response_head(status,
                             headers,
                             {.keep_alive = keep_alive_,
                              .http_1_1 = http_1_1_,
                              .chunked = chunked_,
                              .content_length = std::nullopt,
                              .request_id = request_id_}));
  flush();
}

void Connection::write(std::uint64_t serial, std::string_view data) {
  if (!is_current(serial)) {
    return;
  }
  PHALANX_CHECK(answer_ == Answer::kStreaming, "write() before start_stream()");
  if (head_only_ || data.empty()) {
    return;
  }
  last_write_ = now();
  output_.push(chunked_ ? chunk(data) : std::string(data));
  flush();
  if (phase_ != Phase::kClosed && output_.bytes() > core_->options.stream_pending_bytes_max) {
    drop_slow();
  }
}

void Connection::finish(std::uint64_t serial) {
  if (!is_current(serial)) {
    return;
  }
  PHALANX_CHECK(answer_ == Answer::kStreaming, "finish() before start_stream()");
  complete_answer();
  if (chunked_ && !head_only_) {
    output_.push(std::string(kLastChunk));
  }
  flush();
}

void Connection::on_close(std::uint64_t serial, std::function<void()> callback) {
  if (is_current(serial)) {
    on_close_ = std::move(callback);
  }
}

void Connection::handle_dropped(std::uint64_t serial) {
  if (!is_current(serial)) {
    return;
  }
  if (answer_ == Answer::kAwaited) {
    respond(serial, core_->error_response(500, "the request was dropped without an answer"));
  } else {
    abort();
  }
}

void Connection::complete_answer() {
  answer_ = Answer::kNone;
  --core_->exchanges;
  on_close_ = nullptr;
}

void Connection::flush() {
  if (writing_ || phase_ == Phase::kClosed) {
    return;
  }
  SystemError error;
  const std::size_t written = output_.write_to(socket_, error);
  if (written > 0) {
    last_progress_ = now();
  }
  if (error == asio::error::would_block) {
    wait_writable();
  } else if (error) {
    abort();
  } else {
    on_drained();
  }
}

void Connection::wait_writable() {
  writing_ = true;
  last_progress_ = now();
  socket_.async_wait(Tcp::socket::wait_write, [self = shared_from_this()](SystemError error) {
    self->writing_ = false;
    if (!error) {
      self->flush();
    }
  });
}

void Connection::on_drained() {
  if (phase_ != Phase::kAnswering || answer_ != Answer::kNone) {
    if (phase_ == Phase::kBody) {
      pump();
    }
    return;
  }
  if (!keep_alive_ || core_->draining) {
    return linger();
  }
  enter(Phase::kIdle, core_->options.idle_timeout);
  pump();
  wait_readable();
}

void Connection::linger() {
  SystemError ignored;
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
  std::string().swap(in_);
  enter(Phase::kLingering, kLingerTime);
  wait_readable();
}

void Connection::drop_slow() {
  ++core_->counters.clients_too_slow;
  // A reset, so that the kernel throws away what the client does not take.
  SystemError ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  abort();
}

void Connection::abort() {
  if (answer_ != Answer::kNone) {
    ++core_->counters.clients_gone;
    auto callback = std::exchange(on_close_, nullptr);
    complete_answer();
    if (callback) {
      // Later, so that a handler is never called from inside its own call.
      core_->loop.post([core = core_, callback = std::move(callback)] {
        if (!core->destroyed) {
          callback();
        }
      });
    }
  }
  discard();
}

void Connection::discard() {
  if (phase_ == Phase::kClosed) {
    return;
  }
  phase_ = Phase::kClosed;
  if (answer_ != Answer::kNone) {
    complete_answer();
  }
  release_body();
  output_.clear();
  SystemError ignored;
  socket_.close(ignored);
  core_->connections.erase(shared_from_this());
}

void Connection::close_when_idle() {
  if (phase_ == Phase::kIdle) {
    discard();
  }
}

void Connection::enter(Phase phase, Duration timeout) {
  phase_ = phase;
  deadline_ = now() + timeout;
}

void Connection::tick(SteadyTime time) {
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kLingering:
      if (time >= deadline_) {
        discard();
      }
      return;
    case Phase::kHeader:
    case Phase::kBody:
      if (time >= deadline_) {
        refuse(408,
               phase_ == Phase::kHeader ? "the request's header did not arrive in time"
                                        : "the request's body did not arrive in time");
      }
      return;
    case Phase::kAnswering:
      return tick_answer(time);
    case Phase::kClosed:
      return;
  }
}

void Connection::tick_answer(SteadyTime time) {
  const ServerOptions& options = core_->options;
  if (!output_.empty()) {
    if (time - last_progress_ >= options.write_timeout) {
      drop_slow();
    }
    return;
  }
  if (answer_ == Answer::kStreaming && is_sse_ && options.comment_interval > Duration::zero() &&
      time - last_write_ >= options.comment_interval) {
    write(serial_, sse_comment("ping"));
  }
}

}  // namespace phalanx::http
