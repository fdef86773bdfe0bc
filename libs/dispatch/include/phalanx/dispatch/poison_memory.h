// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "phalanx/base/clock.h"
#include "phalanx/dispatch/generation.h"

namespace phalanx::dispatch {

// Requests that ended every process which computed them. The same again would cost the same deaths,
// so for some minutes it is known by its tokens and parameters. A seed that the request did not get
// to draw from tells nothing and is left out.
//
// Keeps digests, not requests; they are salted, so that nobody can make one that another's request
// has. Bounded: beyond kMaxRequests the oldest is forgotten. Threads: one.
class PoisonMemory {
 public:
  static constexpr std::size_t kMaxRequests = 256;
  static constexpr Duration kRemembered = std::chrono::minutes(5);

  PoisonMemory();

  // `choice` of `generation` did it; `produced`: tokens that it had by then.
  void add(const Generation& generation,
           std::uint32_t choice,
           std::size_t produced,
           SteadyTime now);

  // Would one of its choices do what one that is remembered did?
  [[nodiscard]] bool knows(const Generation& generation, SteadyTime now);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t digest = 0;
    std::uint32_t choice = 0;  // 0 when any does
    SteadyTime since;
  };

  [[nodiscard]] std::uint64_t digest(const Generation& generation) const;  // without the seed

  std::uint64_t salt_;
  std::deque<Entry> entries_;  // oldest first
};

}  // namespace phalanx::dispatch
