// SPDX-License-Identifier: Apache-2.0
// What becomes of the connections of a front that has died, and of the memory that it leaves.
#include <algorithm>
#include <chrono>
#include <utility>

#include "phalanx/keeper/fronts.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/tcp_account.h"

namespace phalanx::keeper {

namespace {

// Connections of dead fronts, in a turn of the loop, and the pause between two: the next front has
// to keep up with them, and its streams go on in between.
constexpr std::size_t kHandedOnPerTurn = 16;
constexpr auto kHandOnPause = std::chrono::milliseconds(1);

// Of those that have a request in work, so many are gone on with at a time: the first go on while
// the last have not begun, where all would come to their next byte together. What nobody waits for
// comes behind them. Both for so long at most.
constexpr std::size_t kUrgentAtOnce = 8;
constexpr auto kUrgentTime = std::chrono::milliseconds(50);

// Connections that are asked whether they need the journal of a dead front, in a turn of the loop.
constexpr std::size_t kLookedAtOnce = 64;

// Between two pieces of memory that nobody needs any more.
constexpr auto kGiveBackPause = std::chrono::milliseconds(10);

}  // namespace

// Answers whether it died of what one of its connections was in the middle of.
bool Fronts::on_gone(std::size_t front, const FrontEnd& end) {
  desk_->on_front_gone(front);
  times_[front] = {};
  renewal_->on_gone(front);
  // First those whose clients wait for bytes.
  std::vector<ConnectionTable::Orphan> orphans = table_->on_front_gone(front);
  if (front == quarantine_front_ && quarantine_->on_gone()) {
    for (ConnectionTable::Orphan& orphan : orphans) {
      orphan.connection.is_suspect = false;
    }
  }
  const auto rest = std::stable_partition(
      orphans.begin(), orphans.end(), [this](const ConnectionTable::Orphan& orphan) {
        return desk_->has_open(orphan.connection.id);
      });
  const auto urgent = static_cast<std::size_t>(rest - orphans.begin());
  if (end.journal) {
    old_journals_.push_back(end.journal);
    give_back_later();
  }
  if (orphans.empty()) {
    hand_on_later();  // those that wait, to the one that is active now
    return false;
  }
  const FrontJournal::Marks suspects = suspects_of(end);
  const bool is_blamed =
      std::any_of(orphans.begin(), orphans.end(), [&](const ConnectionTable::Orphan& orphan) {
        if (std::find(suspects.begin(), suspects.end(), orphan.connection.id) == suspects.end()) {
          return false;
        }
        const auto account = account_of(orphan.connection.id);
        return !account || account != orphan.rest;
      });
  left_.push_back({front, end, {orphans.begin(), orphans.end()}, urgent, steady_clock().now()});
  hand_on_later();
  return is_blamed;
}

// A journal may hold hundreds of megabytes, and the loop would wait for the kernel to take them
// all.
void Fronts::give_back_later() {
  giving_back_ = loop_.call_after(kGiveBackPause, [this] {
    loop_.name_callback("memory of a dead front");
    // One that is held elsewhere is needed by a connection that has not been at rest since, and of
    // which its front does not keep everything yet.
    table_->drop_journals(kLookedAtOnce, [this](std::size_t front, const Newcomer& connection) {
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

void Fronts::hand_on_later() {
  if (!std::exchange(handing_on_, true)) {
    hand_on_some();
  }
}

// Whether the next of them does, for those that are being gone on with. `in_work`: requests that
// are to be told what they missed, those in left_ included.
bool Fronts::waits(const Left& left, std::size_t in_work) const {
  if (steady_clock().now() - left.since >= kUrgentTime) {
    return false;
  }
  std::size_t not_begun = 0;
  for (const Left& other : left_) {
    not_begun += other.urgent;
  }
  const std::size_t begun = in_work - std::min(not_begun, in_work);
  return left.urgent > 0 ? begun >= kUrgentAtOnce : in_work > 0;
}

// Requests that are to be told what they missed, as soon as they can be.
std::size_t Fronts::taking_over() const {
  const std::vector<std::uint64_t> waiting = quarantine_->waiting();
  const auto begun = static_cast<std::size_t>(std::count_if(
      waiting.begin(), waiting.end(), [this](std::uint64_t id) { return desk_->has_open(id); }));
  const std::size_t all = desk_->taking_over();
  return all - std::min(begun, all);
}

// The first of many go on while the last still wait for their turn.
void Fronts::hand_on_some() {
  loop_.name_callback("connections of a dead front");
  const bool more_wait = table_->give_waiting(kHandedOnPerTurn);
  const std::size_t in_work = taking_over();
  for (std::size_t i = 0; i < kHandedOnPerTurn && !left_.empty(); ++i) {
    Left& left = left_.front();
    if (waits(left, in_work)) {
      break;
    }
    left.urgent -= left.urgent > 0 ? 1U : 0U;
    ConnectionTable::Orphan orphan = std::move(left.orphans.front());
    left.orphans.pop_front();
    ++left.fates[hand_on(std::move(orphan), left.end)];
    if (left.orphans.empty()) {
      obs::log_info("connections_of_a_dead_front",
                    {{"front", left.front},
                     {"kept", left.fates[Fate::kRests]},
                     {"resumed", left.fates[Fate::kResumes]},
                     {"over", left.fates[Fate::kOver]},
                     {"cut", left.fates[Fate::kCut]}});
      left_.pop_front();
    }
  }
  handing_on_ = more_wait || !left_.empty();
  if (handing_on_) {
    hand_on_timer_ = loop_.call_after(kHandOnPause, [this] { hand_on_some(); });
  }
}

// A connection of a front that is dead and reaped.
Fate Fronts::hand_on(ConnectionTable::Orphan orphan, const FrontEnd& end) {
  const std::uint64_t id = orphan.connection.id;
  const auto account = account_of(id);
  Fate fate = hand_over(orphan, account, end);
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
  FrontEnd end;
  end.journal = host_->journal(front);
  std::vector<ConnectionTable::Orphan> connections = table_->connections_of(front);
  return std::any_of(connections.begin(), connections.end(), [&](auto& connection) {
    const auto account = account_of(connection.connection.id);
    return account && hand_over(connection, account, end) == Fate::kCut;
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

}  // namespace phalanx::keeper
