// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include "phalanx/base/backoff.h"
#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"

namespace phalanx::supervise {

// `limit` restarts are allowed within any `window`.
struct RestartIntensity {
  std::uint32_t limit = 5;
  Duration window = std::chrono::seconds(60);
  friend bool operator==(const RestartIntensity&, const RestartIntensity&) = default;
};

// Reads "5/60s" (also ms, m, h).
// Errors: kInvalidArgument naming the form.
[[nodiscard]] Result<RestartIntensity> parse_restart_intensity(std::string_view text);

struct RestartPolicyOptions {
  BackoffOptions backoff;
  RestartIntensity intensity;
  // A child that was ready for so long had started well: the next delay is the first again.
  Duration stable_after = std::chrono::seconds(5);
};

// When a dead child comes back. Deterministic in its seed.
// Threads: one.
class RestartPolicy {
 public:
  static constexpr Duration kMaxShortageDelay = std::chrono::seconds(1);

  RestartPolicy(const RestartPolicyOptions& options, std::uint64_t seed);

  // A child ended at `now`: the delay before the next start, or nothing when `limit` restarts lie
  // within the window already. An excused end takes no part in that.
  [[nodiscard]] std::optional<Duration> next_delay(SteadyTime now, bool excused = false);

  // The same where memory, processes or descriptors were lacking, which says nothing of the child
  // and passes: no part of the limit, and at most kMaxShortageDelay.
  [[nodiscard]] Duration delay_in_shortage(SteadyTime now);

  void on_ready(SteadyTime now);
  void forgive();  // an operator started it: history does not count

 private:
  void end_life(SteadyTime now);

  RestartPolicyOptions options_;
  Backoff backoff_;
  std::deque<SteadyTime> restarts_;  // within the window; at most `limit`
  std::optional<SteadyTime> ready_since_;
};

}  // namespace phalanx::supervise
