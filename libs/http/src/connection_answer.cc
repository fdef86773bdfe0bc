// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include <algorithm>
#include <optional>

#include "phalanx/base/check.h"

#include "connection.h"
#include "drop_in_turns.h"
#include "response_head.h"

namespace phalanx::http {
namespace {

// How long a client may take to read a refusal before the connection is closed on it. Closing at
// once would reset the connection, and the reset would overtake the answer.
constexpr Duration kLingerTime = std::chrono::seconds(2);

// Resets a connection at once, whoever holds duplicates of its socket; the kernel throws away what
// the client has not taken. Linux does that when a socket is disconnected; where it cannot be, the
// last one that closes it resets.
void reset_connection(Tcp::socket& socket) {
  SystemError ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  static_cast<void>(::connect(socket.native_handle(), &nobody, sizeof nobody));
}

// Clients that are written to in one callback of the loop, and the bytes of all of them beyond
// which no other's turn begins.
constexpr std::size_t kFlushesPerTurn = 16;
constexpr std::size_t kBytesPerTurn = std::size_t{256} << 10;

// Bytes that one client's answer is copied for whoever may go on with it, in one callback.
constexpr std::size_t kJournaledPerTurn = std::size_t{256} << 10;

}  // namespace

void Connection::send(Response response) {
  keep_alive_ = keep_alive_ && !core_->draining;
  const bool bodiless = is_bodiless(response.status);
  Framing framing;
  framing.keep_alive = keep_alive_;
  framing.http_1_1 = http_1_1_;
  framing.request_id = request_id_;
  framing.access_fields = &access_fields_;
  if (!bodiless) {
    framing.content_length = response.body.size();
  }
  output_.push(response_head(response.status, response.headers, framing));
  if (!bodiless && !head_only_) {
    output_.push(std::move(response.body));
  }
  flush_soon();
}

bool Connection::is_current(std::uint64_t serial) const {
  return answer_ != Answer::kNone && serial == serial_;
}

void Connection::respond(std::uint64_t serial, Response response) {
  if (!is_current(serial)) {
    return;
  }
  if (resumed_ && answer_ == Answer::kStreaming) {
    return abort();  // who had begun the stream could go on with it; this one cannot
  }
  PHALANX_CHECK(answer_ == Answer::kAwaited, "respond() after start_stream()");
  complete_answer();
  send(std::move(response));
}

void Connection::start_stream(std::uint64_t serial, int status, const Headers& headers) {
  if (!is_current(serial)) {
    return;
  }
  if (resumed_ && answer_ == Answer::kStreaming) {
    return abort();  // a handler that does not know that it goes on
  }
  PHALANX_CHECK(answer_ == Answer::kAwaited, "start_stream() called twice");
  PHALANX_CHECK(!is_bodiless(status), "a stream with a status that has no body");
  answer_ = Answer::kStreaming;
  chunked_ = http_1_1_;
  // A client of HTTP/1.0 knows no chunks: for it the end of the connection ends the body.
  keep_alive_ = keep_alive_ && chunked_ && !core_->draining;
  const std::string* type = headers.find("content-type");
  is_sse_ = type != nullptr && type->starts_with("text/event-stream");
  last_write_ = steady_clock().now();
  is_fresh_ = is_fresh_ || output_.empty();
  output_.push(response_head(status,
                             headers,
                             {.keep_alive = keep_alive_,
                              .http_1_1 = http_1_1_,
                              .chunked = chunked_,
                              .content_length = std::nullopt,
                              .request_id = request_id_,
                              .access_fields = &access_fields_}));
  flush_soon();
}

void Connection::write(std::uint64_t serial, std::string data) {
  if (!is_current(serial)) {
    return;
  }
  PHALANX_CHECK(answer_ == Answer::kStreaming, "write() before start_stream()");
  if (head_only_ || data.empty()) {
    return;
  }
  last_write_ = steady_clock().now();
  is_fresh_ = is_fresh_ || output_.empty();
  if (chunked_) {
    output_.push(chunk_head(data.size()));
  }
  output_.push(std::move(data));
  if (chunked_) {
    output_.push(std::string(kLineEnd));
  }
  flush_soon();
  const std::size_t most = core_->options.stream_pending_bytes_max;
  if (is_fresh_) {
    burst_ = output_.bytes() > most ? output_.bytes() : 0;
  } else if (blocked_ && output_.bytes() > burst_ + most) {
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
  flush_soon();
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
    // What was written before the end goes out as far as the socket takes it.
    SystemError ignored;
    output_.write_to(socket_, ignored);
    abort();
  }
}

void Connection::complete_answer() {
  answer_ = Answer::kNone;
  on_close_ = nullptr;
  resumed_.reset();
}

void Connection::flush_soon() {
  account();
  if (writing_ || phase_ == Phase::kClosed) {
    return;
  }
  writing_ = true;
  core_->to_flush.push_back(shared_from_this());
  if (core_->to_flush.size() == 1) {
    core_->loop.post([core = core_] { flush_some(core); });
  }
}

// A callback of its own for each of a hundred streams, with its clocks, would cost as much as a
// tenth of their bytes.
void Connection::flush_some(const std::shared_ptr<ServerCore>& core) {
  std::deque<std::shared_ptr<Connection>> rest = std::exchange(core->to_flush, {});
  std::size_t copied = 0;
  for (std::size_t i = 0; i < kFlushesPerTurn && copied < kBytesPerTurn && !rest.empty(); ++i) {
    const std::shared_ptr<Connection> connection = std::move(rest.front());
    rest.pop_front();
    connection->writing_ = false;
    copied += connection->flush();
  }
  // What has come meanwhile waits for its turn behind the others, and has asked for one.
  const bool is_asked_for = !core->to_flush.empty();
  core->to_flush.insert(core->to_flush.begin(), rest.begin(), rest.end());
  if (!core->to_flush.empty() && !is_asked_for) {
    core->loop.post([core] { flush_some(core); });
  }
}

std::size_t Connection::flush() {
  if (writing_ || phase_ == Phase::kClosed) {
    return 0;
  }
  core_->loop.name_callback("http write");
  const WorkMark mark(*core_, info_.id);
  const std::uint64_t journaled = journaled_;
#ifndef PHALANX_MUTATE_NO_JOURNAL
  if (!journal_output(kJournaledPerTurn)) {
    flush_soon();
    return journaled_ - journaled;
  }
#endif
  SystemError error;
  const std::size_t written = output_.write_to(socket_, error);
  const std::size_t copied = written + (journaled_ - journaled);
  sent_ += written;
  burst_ = std::min(burst_, output_.bytes());
  is_fresh_ = false;
  blocked_ = error == asio::error::would_block;
  const bool waited = std::exchange(waits_writable_, blocked_ || (!error && !output_.empty()));
  if (written > 0) {
    account();
  }
  if (waits_writable_) {
    if (written > 0 || !waited) {
      last_progress_ = steady_clock().now();
    }
    blocked_ ? wait_writable() : flush_soon();
    publish();  // whoever goes on keeps the deadline
  } else if (error) {
    abort();
  } else {
    on_drained();
  }
  return copied;
}

void Connection::wait_writable() {
  writing_ = true;
  socket_.async_wait(Tcp::socket::wait_write, [self = shared_from_this()](SystemError error) {
    self->writing_ = false;
    if (!error) {
      self->flush();
    }
  });
}

void Connection::on_drained() {
  if (phase_ != Phase::kAnswering || answer_ != Answer::kNone) {
    if (phase_ <= Phase::kBody) {
      pump();
      wait_readable();
    }
    return;
  }
  if (!keep_alive_ || core_->draining) {
    return linger();
  }
  request_begin_ = request_end_;
  continued_ = false;
  held_ = 0;
  account();
  enter(Phase::kIdle, core_->options.idle_timeout);
  pump();
  if (phase_ == Phase::kIdle && in_.empty() && output_.empty()) {
    publish();  // what was kept of the request and its answer is needed no more
    if (core_->releasing && release_at_rest()) {
      return;
    }
    if (core_->options.on_rest) {
      core_->options.on_rest(info_.id, received_, sent_);
    }
  }
  wait_readable();
}

void Connection::linger() {
  keep_alive_ = false;
  publish();
  SystemError ignored;
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
  std::string().swap(in_);
  memory_.close();
  enter(Phase::kLingering, kLingerTime);
  wait_readable();
}

void Connection::drop_slow() {
  ++core_->counters.clients_too_slow;
  resets_ = true;
  abort();
}

void Connection::abort() {
  if (answer_ == Answer::kNone) {
    discard();
    return;
  }
  ++core_->counters.clients_gone;
  tell_gone();
  discard();
}

void Connection::tell_gone() {
  auto callback = std::exchange(on_close_, nullptr);
  if (callback) {
    post_while_alive(core_, [core = core_, id = info_.id, callback = std::move(callback)] {
      const WorkMark mark(*core, id);
      callback();
    });
  }
}

void Connection::end_awaited() {
  constexpr const char* kMessage = "the server is shutting down";
  if (phase_ == Phase::kHeader || phase_ == Phase::kBody) {
    return refuse(503, kMessage);
  }
  if (answer_ != Answer::kAwaited) {
    return;
  }
  tell_gone();
  Response response = core_->error_response(503, kMessage);
  response.headers.set("retry-after", kRetryAfterSeconds);
  respond(serial_, std::move(response));
}

void Connection::discard() {
  if (phase_ == Phase::kClosed) {
    return;
  }
  phase_ = Phase::kClosed;
  info_.journal.reset();  // nobody goes on with it
  if (answer_ != Answer::kNone) {
    complete_answer();
  }
  memory_.close();
  drop_body();
  drop_in_turns(core_->loop, output_.take());
  hang_up();
  core_->connections.erase(shared_from_this());
  report_closed(core_, info_.id);
}

// While somebody holds a duplicate of the socket, closing it tells the client nothing.
void Connection::hang_up() {
  SystemError ignored;
  // As the kernel decides it where the last descriptor is closed: a client whose bytes nobody has
  // read must not take them for read.
  if (resets_ || socket_.available(ignored) > 0) {
    reset_connection(socket_);
  }
  socket_.shutdown(Tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

}  // namespace phalanx::http
