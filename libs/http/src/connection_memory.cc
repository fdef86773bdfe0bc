// SPDX-License-Identifier: Apache-2.0
// What a client makes the server hold, and what it may send on for.
#include <algorithm>

#include "connection.h"

namespace phalanx::http {

namespace {

constexpr const char* kFull = "the server holds all that it may for its clients; try again later";

}  // namespace

// What is received and what is to be sent is in the journal once more.
std::size_t Connection::copies() const {
  return info_.journal && !info_.journal->lost() ? 2 : 1;
}

// A request counts until its answer is sent, as it goes on to be held as tokens when its text is
// gone.
std::size_t Connection::bytes_held() const {
  if (phase_ == Phase::kLingering || phase_ == Phase::kClosed) {
    return 0;
  }
  return copies() * (received_ - request_begin_ + output_.bytes()) + held_;
}

// Of a request that comes, and is not admitted, nobody has asked for all.
MemoryBudget::Standing Connection::standing() const {
  return phase_ <= Phase::kBody && admitted_ == 0 ? MemoryBudget::Standing::kBegins
                                                  : MemoryBudget::Standing::kGiven;
}

void Connection::account() {
  memory_.book(std::max(admitted_, bytes_held()), standing());
}

// What is thrown away, or was admitted before, needs no room; an end that nothing comes before is
// heard at once.
bool Connection::may_read() {
  const std::size_t wanted = memory_.bytes() + 1;
  if (phase_ == Phase::kLingering || admitted_ > 0 || memory_.may_hold(wanted, standing())) {
    return true;
  }
  SystemError ignored;
  if (socket_.available(ignored) == 0) {
    return true;
  }
  wait_for(wanted, standing());
  return false;
}

// Before more of a body is read there is room for all of it, so that none waits for what others
// hold that wait, too. False: it waits, or is refused.
bool Connection::admit_body() {
  if (admitted_ > 0) {
    if (bytes_held() > admitted_ && core_->memory.exceeded()) {  // chunks that are mostly framing
      refuse_for_memory();
      return false;
    }
    return true;
  }
  const std::size_t to_come =
      reader_.body_bytes_max() - std::min(reader_.body_bytes(), reader_.body_bytes_max());
  const std::size_t wanted = bytes_held() + copies() * to_come;
  // Of one that goes on here this says that the process before had admitted it.
  const std::size_t unadmitted_max =
      2 * (core_->options.limits.header_bytes_max + core_->scratch.size());
  const bool was_admitted = continued_ || received_ - request_begin_ > unadmitted_max;
  if (!was_admitted && !memory_.may_hold(wanted, MemoryBudget::Standing::kGiven)) {
    account();
    wait_for(wanted, MemoryBudget::Standing::kGiven);
    return false;
  }
  memory_.give_up();
  admitted_ = wanted;
  account();
  return true;
}

void Connection::wait_for(std::size_t bytes, MemoryBudget::Standing wanted) {
  ++core_->counters.memory_waits;
  memory_.wait_for(bytes, wanted);
}

void Connection::go_on_reading() {
  const auto self = shared_from_this();
  const WorkMark mark(*core_, info_.id);
  if (phase_ == Phase::kClosed) {
    return;
  }
  if (phase_ == Phase::kBody) {
    static_cast<void>(see_request());
  }
  if (phase_ != Phase::kClosed && !memory_.waits()) {
    read();
  }
}

void Connection::refuse_for_memory() {
  refuse(503, kFull);
}

}  // namespace phalanx::http
