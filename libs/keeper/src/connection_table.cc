// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/connection_table.h"

#include <algorithm>
#include <utility>

namespace phalanx::keeper {

void FrontConnection::clear() {
  resumes = false;
  journal.reset();
  failure.clear();
  strikes = 0;
  unexplained_deaths = 0;
  is_suspect = false;
  strikes_at_rest = 0;
}

ConnectionTable::ConnectionTable(std::size_t fronts,
                                 std::size_t active,
                                 std::uint32_t places,
                                 Give give)
    : active_max_(active), places_(places), give_(std::move(give)), fronts_(fronts) {}

std::optional<std::size_t> ConnectionTable::least_loaded() const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < fronts_.size(); ++i) {
    if (active(i) && (!best || fronts_[i].connections < fronts_[*best].connections)) {
      best = i;
    }
  }
  return best;
}

ConnectionTable::Entry* ConnectionTable::find(std::size_t front, std::uint64_t id) {
  return has(front, id) ? &entries_.at(id) : nullptr;
}

bool ConnectionTable::has(std::size_t front, std::uint64_t id) const {
  const auto entry = entries_.find(id);
  return entry != entries_.end() && entry->second.front == front;
}

void ConnectionTable::give(std::size_t front, Entry& entry) {
  entry.front = front;
  ++fronts_[front].connections;
  entry.connection.place = take_place(fronts_[front]);
  const FrontConnection connection = entry.connection;  // it may end from within
  give_(front, connection);
}

// The lowest one that is free: the memory of the lower ones has been touched before.
std::uint32_t ConnectionTable::take_place(Front& front) const {
  if (!front.free_places.empty()) {
    return front.free_places.extract(front.free_places.begin()).value();
  }
  return front.places_begun < places_ ? front.places_begun++ : wire::kNoJournalPlace;
}

void ConnectionTable::erase(std::size_t front, std::uint64_t id) {
  const auto entry = entries_.find(id);
  if (const std::uint32_t place = entry->second.connection.place; place != wire::kNoJournalPlace) {
    fronts_[front].free_places.insert(place);
  }
  --fronts_[front].connections;
  entries_.erase(entry);
}

ConnectionTable::Entry& ConnectionTable::enter(FrontConnection connection) {
  Entry& entry = entries_[connection.id];
  entry = {std::move(connection), std::nullopt, std::nullopt};
  if (!entry.connection.resumes) {
    entry.rest = entry.connection.account;
  }
  return entry;
}

void ConnectionTable::add_to(std::size_t front, FrontConnection connection) {
  give(front, enter(std::move(connection)));
}

void ConnectionTable::add(FrontConnection connection) {
  const std::uint64_t id = connection.id;
  Entry& entry = enter(std::move(connection));
  if (const auto front = least_loaded()) {
    give(*front, entry);
  } else {
    waiting_.push_back(id);
  }
}

void ConnectionTable::on_front_ready(std::size_t front) {
  fronts_[front] = {.role = Role::kSpare};
  promote();
}

// Makes as many spare fronts active as there shall be.
void ConnectionTable::promote() {
  std::size_t active = 0;
  for (const Front& front : fronts_) {
    active += front.role == Role::kActive ? 1U : 0U;
  }
  for (Front& front : fronts_) {
    if (active < active_max_ && front.role == Role::kSpare) {
      front.role = Role::kActive;
      ++active;
    }
  }
}

bool ConnectionTable::give_waiting(std::size_t most) {
  for (std::size_t i = 0; i < most && !waiting_.empty(); ++i) {
    const auto front = least_loaded();
    if (!front) {
      return false;
    }
    const std::uint64_t id = waiting_.front();
    waiting_.pop_front();
    give(*front, entries_.at(id));
  }
  return !waiting_.empty() && least_loaded();
}

std::vector<ConnectionTable::Orphan> ConnectionTable::connections_of(std::size_t front) const {
  std::vector<Orphan> connections;
  for (const auto& [id, entry] : entries_) {
    if (entry.front == front) {
      connections.push_back({entry.connection, entry.rest});
    }
  }
  return connections;
}

void ConnectionTable::drop_journals(std::size_t most, const Holds& holds) {
  for (std::size_t i = 0; i < std::min(most, entries_.size()); ++i) {
    auto entry = entries_.upper_bound(looked_at_);
    if (entry == entries_.end()) {
      entry = entries_.begin();
    }
    looked_at_ = entry->first;
    const Entry& seen = entry->second;
    if (seen.connection.journal && seen.front && holds(*seen.front, seen.connection)) {
      entry->second.connection.journal.reset();
    }
  }
}

std::vector<ConnectionTable::Orphan> ConnectionTable::on_front_gone(std::size_t front) {
  std::vector<Orphan> orphans = connections_of(front);
  std::erase_if(entries_, [&](const auto& entry) { return entry.second.front == front; });
  fronts_[front] = {};
  promote();
  return orphans;
}

bool ConnectionTable::rest(std::size_t front,
                           std::uint64_t id,
                           const os::TcpAccount& account,
                           SteadyTime now) {
  Entry* const entry = find(front, id);
  if (entry == nullptr) {
    return false;
  }
  if (entry->rest != account) {
    entry->rest = account;
    entry->connection.waits_since = now;
  }
  entry->connection.clear();
  return true;
}

void ConnectionTable::retire(std::size_t front) {
  fronts_[front].role = Role::kNone;
  promote();
}

std::optional<ConnectionTable::Orphan> ConnectionTable::release(std::size_t front,
                                                                std::uint64_t id,
                                                                const os::TcpAccount& account,
                                                                SteadyTime now) {
  if (!rest(front, id, account, now)) {
    return std::nullopt;
  }
  const Entry& entry = entries_.at(id);
  Orphan orphan{entry.connection, entry.rest};
  erase(front, id);
  return orphan;
}

void ConnectionTable::drop_waiting(const std::set<std::uint64_t>& connections) {
  std::erase_if(waiting_, [&](std::uint64_t id) {
    return connections.contains(id) && entries_.erase(id) == 1;
  });
}

bool ConnectionTable::remove(std::size_t front, std::uint64_t id) {
  if (find(front, id) == nullptr) {
    return false;
  }
  erase(front, id);
  return true;
}

}  // namespace phalanx::keeper
