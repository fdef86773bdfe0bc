// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/waiting_queue.h"

namespace phalanx::dispatch {

void WaitingQueue::add(const ChoiceName& name, const Numerics& fingerprint, SteadyTime since) {
  if (entries_.try_emplace(name, Entry{fingerprint, since}).second) {
    lines_[fingerprint].insert(name);
    times_.emplace(since, name);
  }
}

void WaitingQueue::remove(const ChoiceName& name) {
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) {
    return;
  }
  const auto line = lines_.find(entry->second.line);
  line->second.erase(name);
  if (line->second.empty()) {
    lines_.erase(line);
  }
  times_.erase({entry->second.since, name});
  entries_.erase(entry);
}

void WaitingQueue::renew(const ChoiceName& name, SteadyTime since) {
  Entry& entry = entries_.at(name);
  times_.erase({entry.since, name});
  entry.since = since;
  times_.emplace(since, name);
}

std::vector<Numerics> WaitingQueue::lines() const {
  std::vector<Numerics> result;
  for (auto line = lines_.rbegin(); line != lines_.rend(); ++line) {
    result.push_back(line->first);
  }
  return result;
}

std::optional<ChoiceName> WaitingQueue::first(const Numerics& line) const {
  const auto found = lines_.find(line);
  if (found == lines_.end()) {
    return std::nullopt;
  }
  return *found->second.begin();
}

std::optional<ChoiceName> WaitingQueue::waiting_since(SteadyTime limit) const {
  if (times_.empty() || times_.begin()->first > limit) {
    return std::nullopt;
  }
  return times_.begin()->second;
}

}  // namespace phalanx::dispatch
