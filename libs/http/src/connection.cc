// SPDX-License-Identifier: Apache-2.0
#include "connection.h"

#include <algorithm>
#include <charconv>

#include "phalanx/http/sse.h"
#include "phalanx/os/hang_up.h"

#include "drop_in_turns.h"
#include "exchange_handle.h"
#include "response_head.h"

namespace phalanx::http {
namespace {

constexpr std::size_t kKeptBufferBytes = 4096;

SteadyTime now() {
  return steady_clock().now();
}

bool usable_request_id(const std::string* id) {
  return id != nullptr && !id->empty() && id->size() <= 128 &&
         std::all_of(id->begin(), id->end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

std::string drawn_request_id(std::uint64_t number) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
  return "req-" + std::string(digits.data(), end);
}

// Whether the client has ended its side or is gone, whatever is still to be read.
bool has_hung_up(int socket) {
  const os::WatchedPeer client{socket, true};
  return os::have_left({&client, 1}).front();
}

}  // namespace

Connection::Connection(std::shared_ptr<ServerCore> core, Tcp::socket socket, ConnectionInfo info)
    : core_(std::move(core)),
      socket_(std::move(socket)),
      reader_(core_->options.limits,
              [shared = core_.get()](const Request& head) { return shared->access.check(head); }),
      info_(std::move(info)),
      request_begin_(info_.received),
      request_end_(info_.received),
      journaled_(info_.sent),
      memory_(core_->memory, [this] { go_on_reading(); }),
      received_(info_.received),
      sent_(info_.sent) {
  SystemError ignored;
  socket_.non_blocking(true, ignored);
  // An event of a stream must not wait for the acknowledgement of the one before it.
  socket_.set_option(Tcp::no_delay(true), ignored);
}

void Connection::start() {
  if (info_.resumption) {
    return resume();
  }
  if (!info_.refusal.empty()) {
    return refuse(503, info_.refusal);
  }
  wait_for_request();
  wait_readable();
}

void Connection::wait_readable() {
  // Nothing is parsed before what was written is sent, be it the 100 that a body waits for.
  const bool parses = phase_ != Phase::kAnswering && output_.empty();
  const bool buffer_full = in_.size() >= core_->options.limits.header_bytes_max;
  if (reading_ || phase_ == Phase::kClosed || memory_.waits() || (!parses && buffer_full)) {
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

// What comes behind the last request is thrown away, and not kept for anybody.
std::span<char> Connection::receive_room() {
  std::span<char> room;
  const bool at_rest = phase_ == Phase::kIdle && in_.size() <= 1;
  if (at_rest) {
    forget_empty_lines();
  }
  if (info_.journal && needs_received(state())) {
    if (at_rest) {
      publish();
    }
    room = info_.journal->room();
  }
  return room.empty() ? std::span<char>(core_->scratch) : room;
}

// Those before a request are nothing to keep for ever. The CR of one may have come.
void Connection::forget_empty_lines() {
  const std::uint64_t read = received_ - in_.size();
  if (read - request_begin_ > kKeptBufferBytes) {
    request_begin_ = request_end_ = read;
  }
}

void Connection::on_readable() {
  core_->loop.name_callback("http read");
  const WorkMark mark(*core_, info_.id);
  if (may_read()) {
    read();
  }
}

void Connection::read() {
  // Once: a client that sends much has its next turn after the others.
  const std::span<char> room = receive_room();
  SystemError error;
  const std::size_t count = socket_.read_some(asio::buffer(room.data(), room.size()), error);
  if (error && error != asio::error::would_block) {
    return on_peer_closed();
  }
  received_ += error ? 0 : count;
  if (!error && phase_ != Phase::kLingering) {
    if (info_.journal && room.data() != core_->scratch.data()) {
      info_.journal->received(count);
    }
    in_.append(room.data(), count);
    pump();
    if (phase_ == Phase::kClosed) {
      return;
    }
    account();
  }
  wait_readable();
}

void Connection::on_peer_closed() {
  if (answer_ == Answer::kNone && !output_.empty()) {
    // The answer is complete and on its way: a client that only ended its sending side still reads.
    keep_alive_ = false;
    publish();
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
  return see_request();
}

bool Connection::see_request() {
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
      if (admit_body() && reader_.take_expects_continue() && !std::exchange(continued_, true)) {
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

void Connection::drop_body() {
  admitted_ = 0;
  drop_in_turns(core_->loop, reader_.take_body().take_pieces());
}

void Connection::dispatch() {
  admitted_ = 0;
  if (answer_ != Answer::kStreaming) {
    keep_alive_ = reader_.keep_alive();
    http_1_1_ = reader_.is_http_1_1();
  }
  Request request = reader_.take();
  const std::string* id = request.headers.find("x-request-id");
  const bool is_given = usable_request_id(id);
  if (!resumed_) {
    drawn_id_ = is_given ? 0 : ++core_->next_request_id;
    notes_ = {};
  }
  request_id_ = is_given ? *id : drawn_request_id(drawn_id_);
  request.id = request_id_;
  request.peer = info_.peer;
  request.connection = info_.id;
  request.ordinal = static_cast<std::uint32_t>(++serial_);
  access_fields_ = core_->access.fields_for(request);
  head_only_ = request.method == "HEAD";
  request_end_ = received_ - in_.size();
  phase_ = Phase::kAnswering;
  if (!resumed_) {
    chunked_ = false;
    is_sse_ = false;
    answer_ = Answer::kAwaited;
  }
  ++core_->counters.requests;
  auto handle = std::make_shared<ExchangeHandle>(shared_from_this(), core_, serial_);
  core_->handler(std::move(request), std::move(handle));
  publish();
}

void Connection::refuse(int status, const std::string& message) {
  ++core_->counters.requests_refused;
  memory_.give_up();
  drop_body();
  keep_alive_ = false;
  head_only_ = reader_.is_head();
  http_1_1_ = true;
  request_id_.clear();
  const Request head = reader_.head();
  access_fields_ = core_->access.check(head) ? Headers() : core_->access.fields_for(head);
  phase_ = Phase::kAnswering;
  Response response = core_->error_response(status, message);
  if (status == 503) {
    response.headers.set("retry-after", kRetryAfterSeconds);
  }
  send(std::move(response));
}

void Connection::close_when_idle() {
  if (phase_ == Phase::kIdle) {
    discard();
  }
}

// A byte of the next request that has been read is lost for whoever goes on.
bool Connection::release_at_rest() {
  if (phase_ != Phase::kIdle || !in_.empty() || !output_.empty()) {
    return false;
  }
  phase_ = Phase::kClosed;
  memory_.close();
  SystemError ignored;
  socket_.close(ignored);
  core_->connections.erase(shared_from_this());
  // Until that is said, somebody else could still have to go on from the journal.
  post_while_alive(core_,
                   [tell = &core_->options.on_released,
                    kept = std::shared_ptr<Journal>(std::move(info_.journal)),
                    id = info_.id,
                    received = received_,
                    sent = sent_] { (*tell)(id, received, sent); });
  return true;
}

void Connection::enter(Phase phase, Duration timeout) {
  phase_ = phase;
  deadline_ = now() + timeout;
  if (phase == Phase::kHeader || phase == Phase::kBody) {
    publish();  // whoever goes on keeps that deadline
  }
}

void Connection::postpone(Duration time) {
  deadline_ += time;
  last_progress_ += time;
  if (phase_ == Phase::kHeader || phase_ == Phase::kBody || waits_writable_) {
    publish();
  }
}

void Connection::tick(SteadyTime time) {
  const WorkMark mark(*core_, info_.id);
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kLingering:
      if (time >= deadline_) {
        memory_.waits() ? refuse_for_memory() : discard();
      }
      return;
    case Phase::kHeader:
    case Phase::kBody:
      if (time >= deadline_ && memory_.waits()) {
        refuse_for_memory();
      } else if (time >= deadline_) {
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
  if (!reading_ && has_hung_up(socket_.native_handle())) {
    on_peer_closed();
    if (phase_ == Phase::kClosed) {
      return;
    }
  }
  const ServerOptions& options = core_->options;
  if (!output_.empty()) {
    if (waits_writable_ && time - last_progress_ >= options.write_timeout) {
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
