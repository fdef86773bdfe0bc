// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/clock.h"

namespace phalanx::obs {

// Something that took time. `category` groups events in the viewer; `track` is its row (a request,
// a rank). Both texts are literals or live as long as the ring.
struct TraceEvent {
  std::string_view name;
  std::string_view category;
  std::uint64_t track = 0;
  SteadyTime start;
  Duration duration{};
};

// The newest `capacity` events of a process, so that the last seconds can be looked at after the
// fact. Threads: any; a lock, held for the copy of one event. Allocates only when constructed and
// when written out.
class TraceRing {
 public:
  explicit TraceRing(std::size_t capacity);

  void add(const TraceEvent& event);
  [[nodiscard]] std::uint64_t added() const;  // including those that were overwritten

  // Chrome trace JSON (the "traceEvents" object form), oldest first, times in microseconds of
  // CLOCK_MONOTONIC, which all processes of a machine share.
  [[nodiscard]] std::string chrome_json(std::string_view process_name, int pid) const;

 private:
  mutable std::mutex mutex_;
  std::vector<TraceEvent> events_;
  std::uint64_t added_ = 0;
};

// Adds an event that lasts from construction to destruction.
class Span {
 public:
  Span(TraceRing& ring,
       const Clock& clock,
       std::string_view name,
       std::string_view category,
       std::uint64_t track = 0)
      : ring_(ring), clock_(clock), event_{name, category, track, clock.now(), {}} {}
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() {
    event_.duration = clock_.now() - event_.start;
    ring_.add(event_);
  }

 private:
  TraceRing& ring_;
  const Clock& clock_;
  TraceEvent event_;
};

}  // namespace phalanx::obs
