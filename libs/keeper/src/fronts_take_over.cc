// SPDX-License-Identifier: Apache-2.0
// What becomes of the connections of a front that has died, and of the memory that it leaves; also
// of those that wait for another one.
#include <algorithm>
#include <chrono>
#include <utility>

#include "phalanx/keeper/fronts.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/hang_up.h"
#include "phalanx/os/tcp_account.h"

namespace phalanx::keeper {

namespace {

// Connections that are asked whether they need the journal of a dead front, in a turn of the loop.
constexpr std::size_t kLookedAtOnce = 64;

// Between two pieces of memory that nobody needs any more.
constexpr auto kGiveBackPause = std::chrono::milliseconds(10);

}  // namespace

// Answers whether it died of what one of its connections was in the middle of.
bool Fronts::on_gone(std::size_t front, const FrontEnd& end) {
  desk_->on_front_gone(front);
  gone_[front].long_callbacks += times_[front].long_callbacks;
  gone_[front].log_lines_dropped += times_[front].log_lines_dropped;
  times_[front] = {};
  renewal_->on_gone(front);
  std::vector<ConnectionTable::Orphan> orphans = table_->on_front_gone(front);
  if (front == quarantine_front_ && quarantine_->on_gone()) {
    for (ConnectionTable::Orphan& orphan : orphans) {
      orphan.connection.is_suspect = false;
    }
  }
  if (end.journal) {
    old_journals_.push_back(end.journal);
    give_back_later();
  }
  Verdict verdict = judge(end, orphans);
  const bool is_blamed = std::ranges::any_of(orphans, [&](const ConnectionTable::Orphan& orphan) {
    if (!verdict.suspects_it(orphan.connection.id)) {
      return false;
    }
    const auto account = account_of(orphan.connection.id);
    return !account || account != orphan.rest;
  });
  hand_overs_->add(front, std::move(verdict), std::move(orphans));
  hand_overs_->go_on();
  return is_blamed;
}

// A journal may hold hundreds of megabytes, and the loop would wait for the kernel to take them
// all.
void Fronts::give_back_later() {
  giving_back_ = loop_.call_after(kGiveBackPause, [this] {
    loop_.name_callback("memory of a dead front");
    if (!hand_overs_->empty()) {  // clients wait
      return give_back_later();
    }
    // One that is held elsewhere is needed by a connection that has not been at rest since, and of
    // which its front does not keep everything yet.
    table_->drop_journals(kLookedAtOnce,
                          [this](std::size_t front, const FrontConnection& connection) {
                            return host_->holds(front, connection.place, connection.id);
                          });
    const auto unused = std::find_if(old_journals_.begin(),
                                     old_journals_.end(),
                                     [](const auto& journal) { return journal.use_count() == 1; });
    if (unused != old_journals_.end() && !(*unused)->give_back_some()) {
      old_journals_.erase(unused);
    }
    if (!old_journals_.empty()) {
      give_back_later();
    }
  });
}

HandOverQueue::Calls Fronts::hand_over_calls() {
  return {[this](std::size_t most) {
            loop_.name_callback("connections of a dead front");
            return table_->give_waiting(most);
          },
          [this](std::uint64_t connection) { return desk_->has_open(connection); },
          [this] { return taking_over(); },
          [this](ConnectionTable::Orphan orphan, const Verdict& verdict) {
            return hand_on(std::move(orphan), verdict);
          },
          [this](Duration wait) {
            hand_over_timer_ = loop_.call_after(wait, [this] { hand_overs_->turn(); });
          }};
}

// Requests that are to be told what they missed, as soon as they can be.
std::size_t Fronts::taking_over() const {
  const std::vector<std::uint64_t> waiting = quarantine_->waiting();
  const auto begun = static_cast<std::size_t>(std::count_if(
      waiting.begin(), waiting.end(), [this](std::uint64_t id) { return desk_->has_open(id); }));
  const std::size_t all = desk_->taking_over();
  return all - std::min(begun, all);
}

// A connection of a front that is dead and reaped.
Fate Fronts::hand_on(ConnectionTable::Orphan orphan, const Verdict& verdict) {
  const std::uint64_t id = orphan.connection.id;
  const auto account = account_of(id);
  Fate fate = hand_over(orphan, account, verdict);
  if (fate == Fate::kCut && accounts_ && !account) {
    fate = Fate::kOver;  // the kernel has no such connection any more
  }
  switch (fate) {
    case Fate::kRests:
      ++left_count_.kept;
      desk_->forget(id);
      table_->add(std::move(orphan.connection));
      break;
    case Fate::kResumes:
      ++left_count_.resumed;
      if (orphan.connection.is_suspect) {
        quarantine_->add(std::move(orphan.connection));
      } else {
        table_->add(std::move(orphan.connection));
      }
      break;
    case Fate::kCut:
      ++left_count_.cut;
      disconnect(id);
      break;
    case Fate::kOver:
      disconnect(id);
      break;
  }
  return fate;
}

// Whether a connection of the front would end with it.
bool Fronts::would_cut(std::size_t front) const {
  const Verdict verdict{.journal = host_->journal(front)};
  std::vector<ConnectionTable::Orphan> connections = table_->connections_of(front);
  return std::any_of(connections.begin(), connections.end(), [&](auto& connection) {
    const auto account = account_of(connection.connection.id);
    return account && hand_over(connection, account, verdict) == Fate::kCut;
  });
}

// None: the kernel's account cannot be relied on, or the connection is no more. True if its front is
// dead and reaped, or has let go of it: then it stands still.
std::optional<os::TcpAccount> Fronts::account_of(std::uint64_t connection) const {
  const os::UniqueFd* const socket = doors_->socket(connection);
  if (!accounts_ || socket == nullptr) {
    return std::nullopt;
  }
  const auto account = os::tcp_account(socket->get());
  return account ? std::optional(*account) : std::nullopt;
}

// Of connections that wait, for a front or for their turn in quarantine, nobody else would notice.
// Without a request in work a client that only ended its sending side may still read the end of an
// answer; that is for the next front to see.
void Fronts::drop_left_by_clients() {
  std::vector<std::uint64_t> unserved = quarantine_->waiting();
  if (!table_->any_active()) {
    unserved.insert(unserved.end(), table_->waiting().begin(), table_->waiting().end());
  }
  std::vector<os::WatchedPeer> clients;
  clients.reserve(unserved.size());
  for (const std::uint64_t connection : unserved) {
    clients.push_back({doors_->socket(connection)->get(), desk_->has_open(connection)});
  }
  const std::vector<bool> have_left = os::have_left(clients);
  std::set<std::uint64_t> left;
  for (std::size_t i = 0; i < unserved.size(); ++i) {
    if (have_left[i]) {
      left.insert(unserved[i]);
      desk_->forget_client(unserved[i]);
    }
  }
  if (!left.empty()) {
    obs::log_info("clients_left_unserved", {{"connections", left.size()}});
    drop_unserved(left);
  }
}

// Of those that wait, for a front or for their turn in quarantine.
void Fronts::drop_unserved(const std::set<std::uint64_t>& connections) {
  table_->drop_waiting(connections);
  quarantine_->drop_waiting(connections);
  for (const std::uint64_t connection : connections) {
    disconnect(connection);
  }
}

}  // namespace phalanx::keeper
