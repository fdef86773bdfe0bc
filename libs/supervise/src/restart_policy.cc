// SPDX-License-Identifier: Apache-2.0
#include "phalanx/supervise/restart_policy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

namespace phalanx::supervise {

namespace {

constexpr std::uint32_t kMaxRestarts = 100'000;
constexpr std::int64_t kMaxWindow = 1'000'000;  // of its unit
constexpr auto kLongestWindow = std::chrono::hours(24 * 30);

std::optional<std::int64_t> parse_count(std::string_view text, std::int64_t limit) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > limit) {
    return std::nullopt;
  }
  return value;
}

std::optional<Duration> parse_window(std::string_view text) {
  // "ms" before "m" and "s": the longest unit that fits.
  constexpr std::array<std::pair<std::string_view, std::chrono::milliseconds>, 4> kUnits{
      {{"ms", std::chrono::milliseconds(1)},
       {"s", std::chrono::seconds(1)},
       {"m", std::chrono::minutes(1)},
       {"h", std::chrono::hours(1)}}};
  for (const auto& [name, unit] : kUnits) {
    if (text.ends_with(name)) {
      const auto count = parse_count(text.substr(0, text.size() - name.size()), kMaxWindow);
      if (!count || *count == 0 || unit * *count > kLongestWindow) {
        return std::nullopt;
      }
      return unit * *count;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<RestartIntensity> parse_restart_intensity(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const auto limit = parse_count(text.substr(0, slash), kMaxRestarts);
    const auto window = parse_window(text.substr(slash + 1));
    if (limit && window) {
      return RestartIntensity{static_cast<std::uint32_t>(*limit), *window};
    }
  }
  return invalid_argument(
      "expected RESTARTS/TIME, as in 5/60s; units are ms, s, m, h, the longest time is 720h; found "
      "\"" +
      std::string(text) + "\"");
}

RestartPolicy::RestartPolicy(const RestartPolicyOptions& options, std::uint64_t seed)
    : options_(options), backoff_(options.backoff, seed) {}

void RestartPolicy::end_life(SteadyTime now) {
  if (ready_since_ && now - *ready_since_ >= options_.stable_after) {
    backoff_.reset();
  }
  ready_since_.reset();
}

std::optional<Duration> RestartPolicy::next_delay(SteadyTime now, bool excused) {
  end_life(now);
  if (excused) {
    return options_.backoff.first;
  }
  while (!restarts_.empty() && now - restarts_.front() >= options_.intensity.window) {
    restarts_.pop_front();
  }
  if (restarts_.size() >= options_.intensity.limit) {
    return std::nullopt;
  }
  restarts_.push_back(now);
  return backoff_.next();
}

Duration RestartPolicy::delay_in_shortage(SteadyTime now) {
  end_life(now);
  return std::min<Duration>(backoff_.next(), kMaxShortageDelay);
}

void RestartPolicy::on_ready(SteadyTime now) {
  // A recovery inside the child makes it ready again; what counts is how long it has lived.
  if (!ready_since_) {
    ready_since_ = now;
  }
}

void RestartPolicy::forgive() {
  backoff_.reset();
  restarts_.clear();
  ready_since_.reset();
}

}  // namespace phalanx::supervise
