// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/connection_table.h"

#include <algorithm>
#include <utility>

namespace phalanx::keeper {

ConnectionTable::ConnectionTable(std::size_t fronts, std::size_t active, Give give)
    : active_max_(active), give_(std::move(give)), fronts_(fronts) {}

std::optional<std::size_t> ConnectionTable::least_loaded() const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < fronts_.size(); ++i) {
    if (fronts_[i].active && (!best || fronts_[i].connections < fronts_[*best].connections)) {
      best = i;
    }
  }
  return best;
}

ConnectionTable::Entry* ConnectionTable::find(std::size_t front, std::uint64_t id) {
  const auto entry = entries_.find(id);
  return entry == entries_.end() || entry->second.front != front ? nullptr : &entry->second;
}

void ConnectionTable::give(std::size_t front, Entry& entry) {
  entry.front = front;
  ++fronts_[front].connections;
  const Newcomer connection = entry.connection;  // it may end from within
  give_(front, connection);
}

void ConnectionTable::add(Newcomer connection, const os::TcpAccount& begun) {
  const std::uint64_t id = connection.id;
  Entry& entry = entries_[id];
  entry = {std::move(connection), std::nullopt, begun, begun};
  if (const auto front = least_loaded()) {
    give(*front, entry);
  } else {
    waiting_.push_back(id);
  }
}

void ConnectionTable::on_front_ready(std::size_t front) {
  fronts_[front] = {.ready = true};
  promote();
}

// Makes as many ready fronts active as there shall be, and gives them what has waited for one.
void ConnectionTable::promote() {
  auto active = std::count_if(
      fronts_.begin(), fronts_.end(), [](const Front& front) { return front.active; });
  for (Front& front : fronts_) {
    if (static_cast<std::size_t>(active) < active_max_ && front.ready && !front.active) {
      front.active = true;
      ++active;
    }
  }
  if (active > 0) {
    for (const std::uint64_t id : std::exchange(waiting_, {})) {
      give(*least_loaded(), entries_.at(id));
    }
  }
}

std::vector<ConnectionTable::Orphan> ConnectionTable::on_front_gone(std::size_t front) {
  fronts_[front] = {};
  std::vector<Orphan> orphans;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (entry->second.front == front) {
      orphans.push_back({std::move(entry->second.connection), entry->second.rest});
      entry = entries_.erase(entry);
    } else {
      ++entry;
    }
  }
  promote();
  return orphans;
}

bool ConnectionTable::rest(std::size_t front,
                           std::uint64_t id,
                           std::uint64_t received,
                           std::uint64_t sent) {
  Entry* const entry = find(front, id);
  if (entry == nullptr) {
    return false;
  }
  entry->rest = {entry->begun.received + received, entry->begun.sent + sent};
  return true;
}

void ConnectionTable::retire(std::size_t front) {
  fronts_[front].ready = false;
  fronts_[front].active = false;
  promote();
}

std::optional<ConnectionTable::Orphan> ConnectionTable::release(std::size_t front,
                                                                std::uint64_t id,
                                                                std::uint64_t received,
                                                                std::uint64_t sent) {
  if (!rest(front, id, received, sent)) {
    return std::nullopt;
  }
  Entry& entry = entries_.at(id);
  Orphan orphan{std::move(entry.connection), entry.rest};
  entries_.erase(id);
  --fronts_[front].connections;
  return orphan;
}

std::vector<std::uint64_t> ConnectionTable::take_waiting() {
  std::vector<std::uint64_t> ids(waiting_.begin(), waiting_.end());
  waiting_.clear();
  for (const std::uint64_t id : ids) {
    entries_.erase(id);
  }
  return ids;
}

bool ConnectionTable::remove(std::size_t front, std::uint64_t id) {
  if (find(front, id) == nullptr) {
    return false;
  }
  entries_.erase(id);
  --fronts_[front].connections;
  return true;
}

}  // namespace phalanx::keeper
