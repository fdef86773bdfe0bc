// SPDX-License-Identifier: Apache-2.0
// What a connection leaves to whoever goes on with it in another process, and how it goes on with
// what another one has left.
#include <algorithm>
#include <limits>
#include <utility>

#include "connection.h"
#include "response_head.h"

namespace phalanx::http {

namespace {

// For what lies in the socket of a connection that is gone on with.
constexpr Duration kReadingTime = std::chrono::milliseconds(250);

// For a client to take some of what it was sent last, from when there is somebody to send the rest.
constexpr Duration kTakingTime = std::chrono::seconds(1);

constexpr const char* kReadOtherwise =
    "the process that goes on with the request reads it otherwise than the one before did";

// Modulo 2^32.
std::uint32_t milliseconds_of(SteadyTime time) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count());
}

// Of a deadline that another process has left, but between these.
Duration left_of(std::uint32_t deadline_ms, SteadyTime time, Duration least, Duration most) {
  const auto ms = static_cast<std::int32_t>(deadline_ms - milliseconds_of(time));
  return std::min(std::max<Duration>(std::chrono::milliseconds(ms), least), most);
}

}  // namespace

Stage Connection::stage() const {
  switch (answer_) {
    case Answer::kAwaited:
      return Stage::kAwaited;
    case Answer::kStreaming:
      return Stage::kStreaming;
    case Answer::kNone:
      break;
  }
  return phase_ <= Phase::kBody ? Stage::kReading : Stage::kComplete;
}

ConnectionState Connection::state() const {
  ConnectionState state;
  state.stage = stage();
  state.keep_alive = keep_alive_;
  state.http_1_1 = http_1_1_;
  state.chunked = chunked_;
  state.is_sse = is_sse_;
  state.head_only = head_only_;
  state.continued = continued_;
  state.in_body = phase_ == Phase::kBody;
  if (phase_ == Phase::kHeader || phase_ == Phase::kBody) {
    state.deadline_ms = std::max(milliseconds_of(deadline_), 1U);
  } else if (phase_ == Phase::kAnswering && waits_writable_) {
    state.deadline_ms =
        std::max(milliseconds_of(last_progress_ + core_->options.write_timeout), 1U);
  }
  state.ordinal = static_cast<std::uint32_t>(serial_);
  state.request_begin = request_begin_;
  state.request_end = phase_ <= Phase::kBody ? request_begin_ : request_end_;
  state.drawn_id = drawn_id_;
  state.notes = notes_;
  return state;
}

// False: there is more, for another turn of the loop. What is sent is published before.
bool Connection::journal_output(std::size_t bytes_max) {
  const std::uint64_t end = sent_ + output_.bytes();
  if (!info_.journal || info_.journal->lost() || journaled_ == end) {
    return true;
  }
  journaled_ += output_.show(journaled_ - sent_, bytes_max, [this](std::string_view piece) {
    info_.journal->append(piece, sent_);
  });
  if (journaled_ < end) {
    return false;
  }
  info_.journal->publish(state(), sent_);
  return true;
}

// A state is true only together with all that has been written in it.
void Connection::publish() {
  if (!info_.journal || phase_ == Phase::kClosed) {
    return;
  }
  if (journaled_ == sent_ + output_.bytes()) {
    info_.journal->publish(state(), sent_);
  } else {
    static_cast<void>(journal_output(std::numeric_limits<std::size_t>::max()));
  }
}

const Resumed* Connection::resumed(std::uint64_t serial) const {
  return is_current(serial) && resumed_ ? &*resumed_ : nullptr;
}

void Connection::note(std::uint64_t serial, const HandlerNotes& notes) {
  if (is_current(serial)) {
    notes_ = notes;
  }
}

void Connection::hold(std::uint64_t serial, std::size_t bytes) {
  if (is_current(serial)) {
    held_ += bytes;
    account();
  }
}

void Connection::resume() {
  const Resumption left = *std::exchange(info_.resumption, std::nullopt);
  const ConnectionState& state = left.state;
  keep_alive_ = state.keep_alive;
  http_1_1_ = state.http_1_1;
  chunked_ = state.chunked;
  is_sse_ = state.is_sse;
  head_only_ = state.head_only;
  continued_ = state.continued;
  request_begin_ = state.request_begin;
  request_end_ = state.request_end;
  drawn_id_ = state.drawn_id;
  notes_ = state.notes;
  serial_ = state.ordinal;
  output_.push(left.to_send);
  journaled_ = sent_ + left.to_send.size();
  last_write_ = steady_clock().now();
  keep_write_deadline(state);
  switch (state.stage) {
    case Stage::kReading:
      resume_reading(left);
      break;
    case Stage::kAwaited:
    case Stage::kStreaming:
      resume_request(state.stage, left.received);
      break;
    case Stage::kComplete:
      resume_sending(left.received);
      break;
  }
  if (phase_ != Phase::kClosed) {
    flush_soon();  // which counts what was left as well
    if (waits_writable_) {
      publish();  // the next one keeps the deadline, too
    }
    wait_readable();
  }
}

void Connection::resume_reading(const Resumption& left) {
  const std::string_view received = left.received;
  const ConnectionState& state = left.state;
  enter(Phase::kIdle, core_->options.header_timeout);
  if (!info_.failure.empty()) {
    return fail_unread(received);
  }
  if (!info_.refusal.empty()) {
    return refuse(503, info_.refusal);
  }
  if (!output_.empty()) {
    in_ = received;  // it is read when that has gone
    state.in_body ? enter(Phase::kBody, core_->options.body_timeout)
                  : enter(Phase::kHeader, core_->options.header_timeout);
    keep_deadline(state);
    return;
  }
  // A large body is not copied once more.
  in_ = received.substr(reader_.feed(received));
  if (see_request()) {
    pump();
  }
  keep_deadline(state);
}

// A client gets no more time for a request because fronts die, but for what it may have sent while
// there was none.
void Connection::keep_deadline(const ConnectionState& left) {
  const bool is_same = phase_ == (left.in_body ? Phase::kBody : Phase::kHeader);
  if (left.deadline_ms == 0 || !is_same) {
    return;
  }
  const SteadyTime time = steady_clock().now();
  deadline_ = time + left_of(left.deadline_ms, time, kReadingTime, deadline_ - time);
  publish();
}

// Nor to begin one.
void Connection::wait_for_request() {
  const ServerOptions& options = core_->options;
  const Duration most = info_.goes_on ? options.idle_timeout : options.header_timeout;
  enter(Phase::kIdle, std::max(most - info_.waited, std::min(most, kReadingTime)));
}

// Nor to take an answer, as long as its socket takes nothing.
void Connection::keep_write_deadline(const ConnectionState& left) {
  waits_writable_ = left.stage != Stage::kReading && left.deadline_ms != 0 && !output_.empty();
  last_progress_ = steady_clock().now();
  if (waits_writable_) {
    const Duration time = core_->options.write_timeout;
    last_progress_ += left_of(left.deadline_ms, last_progress_, kTakingTime, time) - time;
    // As the one before did. What little room there is was there before: a write into it would be
    // progress for which its client has done nothing.
    wait_writable();
  }
}

void Connection::resume_sending(std::string_view received) {
  phase_ = Phase::kAnswering;
  if (!needs_received(state())) {
    return;
  }
  if (received.size() < request_end_ - request_begin_) {
    return abort();
  }
  in_ = received.substr(request_end_ - request_begin_);
  if (info_.failure.empty()) {
    return;
  }
  // Of an answer that is sent nobody has died, but of the request behind it.
  if (keep_alive_ && output_.empty() && !in_.empty()) {
    return fail_unread(in_);
  }
  keep_alive_ = false;
  publish();
}

// The request is read once more, and its handler runs once more.
void Connection::resume_request(Stage stage, std::string_view received) {
  const std::size_t bytes = request_end_ - request_begin_;
  std::size_t used = 0;
  for (std::size_t before = bytes; used < std::min(bytes, received.size()) && used != before;) {
    before = used;
    used += reader_.feed(received.substr(used, bytes - used));
  }
  if (used != bytes || reader_.state() != RequestReader::State::kComplete) {
    return stage == Stage::kStreaming ? abort() : refuse_read_otherwise();
  }
  in_ = received.substr(bytes);
  if (!info_.failure.empty()) {
    return stage == Stage::kStreaming ? fail_stream() : refuse(500, info_.failure);
  }
  answer_ = stage == Stage::kStreaming ? Answer::kStreaming : Answer::kAwaited;
  --serial_;  // dispatch() counts the request again
  resumed_ = {notes_, stage == Stage::kStreaming};
  dispatch();
}

// The reader of the process before has taken the same bytes for a request; nothing of an answer has
// been said yet.
void Connection::refuse_read_otherwise() {
  if (reader_.state() == RequestReader::State::kRefused) {
    refuse(reader_.refusal().status, reader_.refusal().message);
  } else {
    refuse(500, info_.failure.empty() ? kReadOtherwise : info_.failure);
  }
}

// Processes have died of these bytes, perhaps while they read them: none reaches the reader, nor
// what checks fields, so the answer has none for scripts of other origins. Only whether it has a
// body is looked at here.
void Connection::fail_unread(std::string_view received) {
  constexpr std::string_view kHead = "HEAD ";
  received.remove_prefix(std::min(received.find_first_not_of(kLineEnd), received.size()));
  if (received.starts_with(kHead)) {
    static_cast<void>(reader_.feed(kHead));
  }
  refuse(500, info_.failure);
}

void Connection::fail_stream() {
  if (!is_sse_ || !core_->options.format_stream_failure) {
    return abort();
  }
  phase_ = Phase::kAnswering;
  keep_alive_ = false;
  std::string events = core_->options.format_stream_failure(info_.failure);
  if (chunked_) {
    output_.push(chunk_head(events.size()));
  }
  output_.push(std::move(events));
  if (chunked_) {
    output_.push(std::string(kLineEnd));
    output_.push(std::string(kLastChunk));
  }
}

}  // namespace phalanx::http
