// SPDX-License-Identifier: Apache-2.0
// How fronts get records.
#include <array>
#include <chrono>
#include <csignal>
#include <span>
#include <utility>
#include <variant>

#include "phalanx/keeper/front_host.h"
#include "phalanx/obs/log.h"
#include "phalanx/wire/codec.h"

namespace phalanx::keeper {

namespace {

// A socket that is full holds some thousand tokens: its front is far behind, and a millisecond more
// is nothing to it.
constexpr auto kRetryTime = std::chrono::milliseconds(1);

}  // namespace

void FrontHost::send(std::size_t front,
                     const wire::LeaderToFront& record,
                     std::shared_ptr<const FrontJournal> journal) {
  Link& link = links_[front];
  if (!link.ready || link.killed) {
    return;
  }
  const auto* const connect = std::get_if<wire::Connect>(&record);
  Unsent unsent{
      wire::encode(record), connect == nullptr ? 0 : connect->connection, std::move(journal)};
  if (link.unsent.empty() && send_now(front, unsent)) {
    return;
  }
  link.unsent_bytes += unsent.bytes.size();
  link.unsent.push_back(std::move(unsent));
  if (link.unsent_bytes > kMaxUnsentBytes) {
    kill(front, {"it is too far behind"});
  } else if (!link.retry) {
    link.retry = loop_.call_every(kRetryTime, [this, front] { flush(front); });
  }
}

// False: the front takes nothing now.
bool FrontHost::send_now(std::size_t front, const Unsent& record) {
  const bool is_connect = record.connection != 0;
  const std::array<int, 2> fds = {is_connect ? calls_.socket_of(record.connection) : -1,
                                  record.journal ? record.journal->fd() : -1};
  if (is_connect && fds[0] < 0) {
    return true;
  }
  const std::size_t count = (is_connect ? 1U : 0U) + (record.journal ? 1U : 0U);
  const auto sent = runner_->send(front, record.bytes, std::span(fds).first(count));
  if (!sent) {
    obs::log_error("record_lost", {{"front", front}, {"error", sent.error().message()}});
    kill(front, {"a record does not reach it"});
    return true;
  }
  if (*sent == os::ControlSent::kTooManyDescriptors) {
    links_[front].stuck_ticks = 0;  // whoever does not take them: one that hangs says nothing, too
    return false;
  }
  return *sent != os::ControlSent::kWouldBlock;  // kClosed: its end is on the way
}

void FrontHost::flush(std::size_t front) {
  loop_.name_callback("records to a front");
  Link& link = links_[front];
  while (!link.unsent.empty() && send_now(front, link.unsent.front())) {
    if (link.killed) {
      return;
    }
    link.unsent_bytes -= link.unsent.front().bytes.size();
    link.unsent.pop_front();
    link.stuck_ticks = 0;
  }
  if (link.unsent.empty()) {
    link.retry.reset();
  }
}

}  // namespace phalanx::keeper
