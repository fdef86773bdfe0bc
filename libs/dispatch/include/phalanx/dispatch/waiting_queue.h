// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/ids.h"

namespace phalanx::dispatch {

using ChoiceName = std::pair<RequestId, std::uint32_t>;
// The fingerprint of who has produced what a choice has: only equal ones may go on. None: anybody
// may.
using Numerics = std::optional<std::uint64_t>;

// Choices that no replica could take yet, older requests first. Those that may go only to replicas
// of one numerics stand in a line of their own, so that the first of a line speaks for the line:
// where it finds no replica, none behind it does. No operation looks at all that waits.
//
// Threads: one.
class WaitingQueue {
 public:
  // Harmless for one that is there: it keeps its place and its time.
  void add(const ChoiceName& name, const Numerics& fingerprint, SteadyTime since);

  // Harmless for one that is not there.
  void remove(const ChoiceName& name);

  // One that is there keeps its place and waits from `since` on.
  void renew(const ChoiceName& name, SteadyTime since);

  // The lines that are not empty, streams that have begun elsewhere first.
  [[nodiscard]] std::vector<Numerics> lines() const;

  [[nodiscard]] std::optional<ChoiceName> first(const Numerics& line) const;

  // One that has waited since `limit` or longer.
  [[nodiscard]] std::optional<ChoiceName> waiting_since(SteadyTime limit) const;

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    Numerics line;
    SteadyTime since;
  };
  std::map<ChoiceName, Entry> entries_;
  std::map<Numerics, std::set<ChoiceName>> lines_;
  std::set<std::pair<SteadyTime, ChoiceName>> times_;
};

}  // namespace phalanx::dispatch
