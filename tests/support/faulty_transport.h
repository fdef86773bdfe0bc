// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/wire/link.h"

namespace phalanx::testing {

// Virtual time of a test, in milliseconds.
using Millis = std::int64_t;

enum class Direction { kToRank, kToReplica };

// A frame about to travel, as the judge sees it.
struct Passage {
  Direction direction = Direction::kToRank;
  RankId rank;
  Incarnation incarnation;
  std::string_view bytes;
  std::uint64_t index = 0;  // of all frames of this transport, from 0
};

// What becomes of it.
struct Treatment {
  wire::Sent sent = wire::Sent::kQueued;  // anything else: the frame does not travel
  bool lost = false;
  Millis delay = 1;            // frames overtake each other when their delays differ
  std::optional<Millis> copy;  // a second delivery, after so long
};

// The links between one replica and its ranks, which do to frames what a network and dying peers
// do: lose, delay, duplicate, reorder, refuse. Frames are never altered.
//
// Deterministic: what happens depends on the judge alone.
// Threads: one.
class FaultyTransport {
 public:
  using Judge = std::function<Treatment(const Passage&)>;

  struct Delivery {
    Direction direction = Direction::kToRank;
    RankId rank;
    Incarnation incarnation;
    std::string bytes;
  };

  // Without a judge every frame arrives after 1 ms.
  void judge_with(Judge judge) { judge_ = std::move(judge); }

  wire::Sent send(const Passage& passage, Millis now);

  // What arrives up to and at `now`, in order of arrival.
  [[nodiscard]] std::vector<Delivery> due(Millis now);

  // The link of one incarnation goes down: what is under way to the rank is gone, and what comes
  // from it is lost where `lose_replies` says so.
  void cut(RankId rank, Incarnation incarnation, bool lose_replies);

  [[nodiscard]] std::uint64_t frames() const { return frames_; }

 private:
  struct InFlight {
    Millis at = 0;
    std::uint64_t order = 0;
    Delivery delivery;
  };
  Judge judge_;
  std::vector<InFlight> in_flight_;
  std::uint64_t frames_ = 0;
  std::uint64_t order_ = 0;
};

// Rates of random faults, each of 1000 frames.
struct FaultRates {
  std::uint32_t lose = 0;
  std::uint32_t duplicate = 0;
  std::uint32_t delay = 0;
  std::uint32_t would_block = 0;
  std::uint32_t closed = 0;
  Millis longest_delay = 60;
};

// Faults drawn from `seed`: equal seeds give equal runs.
[[nodiscard]] FaultyTransport::Judge random_faults(std::uint64_t seed, const FaultRates& rates);

}  // namespace phalanx::testing
