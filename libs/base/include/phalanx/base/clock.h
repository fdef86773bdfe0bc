// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace phalanx {

using SteadyTime = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// Where logic reads the time, so that tests can turn the hands.
// Threads: now() may be called from any thread.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;
  [[nodiscard]] virtual SteadyTime now() const = 0;
};

// CLOCK_MONOTONIC. The returned object lives as long as the process.
[[nodiscard]] const Clock& steady_clock();

// Another clock without the time in which this process did not run, as when it was stopped by a
// signal: of what passes between two looks at it, at most kMostUnseen counts. Others get their time
// by it whatever happened to who waits for them. It goes slow where nobody looks at it more often
// than that.
class RunningClock final : public Clock {
 public:
  static constexpr Duration kMostUnseen = std::chrono::seconds(1);

  explicit RunningClock(const Clock& clock)
      : clock_(clock), seen_(clock.now()), now_(clock.now()) {}
  [[nodiscard]] SteadyTime now() const override;

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;
  mutable SteadyTime seen_;  // by clock_
  mutable SteadyTime now_;
};

// Of steady_clock(), for a process whose loop ticks. The returned object lives as long as it.
[[nodiscard]] const Clock& running_clock();

// Seconds since the Unix epoch, for time stamps that people read; never for measuring.
[[nodiscard]] double unix_seconds();

[[nodiscard]] constexpr double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
// Rounded towards zero. Requires that a Duration can hold it.
[[nodiscard]] constexpr Duration from_seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}
[[nodiscard]] constexpr double to_milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}
// Rounded towards zero.
[[nodiscard]] constexpr std::int64_t to_microseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}
// For people to read, to the microsecond and without needless places: "60 s", "0.25 s".
[[nodiscard]] std::string seconds_text(Duration duration);

}  // namespace phalanx
