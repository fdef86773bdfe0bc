// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/clock.h"

#include <algorithm>
#include <utility>

namespace phalanx {

namespace {

class MonotonicClock final : public Clock {
 public:
  [[nodiscard]] SteadyTime now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace

SteadyTime RunningClock::now() const {
  const std::lock_guard lock(mutex_);
  const SteadyTime seen = clock_.now();
  now_ += std::min(seen - std::exchange(seen_, seen), kMostUnseen);
  return now_;
}

const Clock& running_clock() {
  static const RunningClock kClock(steady_clock());
  return kClock;
}

const Clock& steady_clock() {
  static const MonotonicClock kClock;
  return kClock;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string seconds_text(Duration duration) {
  std::string text = std::to_string(to_seconds(duration));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) {
    text.pop_back();
  }
  return text + " s";
}

}  // namespace phalanx
