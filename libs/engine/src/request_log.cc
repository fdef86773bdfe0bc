// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/request_log.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "phalanx/obs/log.h"
#include "phalanx/step/sampling.h"

namespace phalanx::engine {
namespace {

// As a frame has it.
std::uint32_t told_us(Duration time) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::min<std::int64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(time).count(), kMost));
}

}  // namespace

std::string text_of(const wire::SequenceKey& key) {
  return std::to_string(key.request.value()) + "." + std::to_string(key.choice.value()) + "#" +
         std::to_string(key.attempt.value());
}

void RequestLog::began(const wire::Submit& submit, SteadyTime now) {
  open_[submit.key] = Times{now, std::nullopt, std::nullopt, 0};
  const step::SamplingParams& sampling = submit.sampling;
  obs::log_info("request_start",
                {{"sequence", text_of(submit.key)},
                 {"prompt", submit.prompt_ids.size()},
                 {"history", submit.produced_ids.size()},
                 {"max_tokens", submit.stop.max_tokens},
                 {"temperature", static_cast<double>(sampling.temperature)},
                 {"top_k", sampling.top_k},
                 {"top_p", static_cast<double>(sampling.top_p)},
                 {"seed", static_cast<std::int64_t>(sampling.seed)}});  // as requests name it
}

void RequestLog::admitted(const wire::SequenceKey& key, SteadyTime now) {
  const auto found = open_.find(key);
  if (found == open_.end() || found->second.admitted) {
    return;
  }
  found->second.admitted = now;
  obs::log_info(
      "request_running",
      {{"sequence", text_of(key)}, {"queue_ms", to_milliseconds(now - found->second.began)}});
}

void RequestLog::updated(wire::TokenUpdate* update, SteadyTime now) {
  const auto found = open_.find(update->key);
  if (found == open_.end()) {
    return;
  }
  Times& times = found->second;
  times.tokens += update->has_token ? 1U : 0U;
  if (update->has_token && !times.first_token) {
    times.first_token = now;
    const SteadyTime admitted = times.admitted.value_or(times.began);
    update->queue_us = told_us(admitted - times.began);
    update->prefill_us = told_us(now - admitted);
    obs::log_info("request_first_token",
                  {{"sequence", text_of(update->key)},
                   {"prefill_ms", to_milliseconds(now - admitted)},
                   {"since_start_ms", to_milliseconds(now - times.began)}});
  }
  if (update->finish != step::FinishReason::kNone) {
    obs::log_info("request_end",
                  {{"sequence", text_of(update->key)},
                   {"reason", step::finish_name(update->finish)},
                   {"tokens", times.tokens},
                   {"decode_ms", to_milliseconds(now - times.first_token.value_or(now))},
                   {"total_ms", to_milliseconds(now - times.began)},
                   {"error", update->error_message}});
    open_.erase(found);
  }
}

void RequestLog::refused(const wire::SequenceKey& key, const Error& error) {
  obs::log_info("request_refused", {{"sequence", text_of(key)}, {"error", error.to_string()}});
}

}  // namespace phalanx::engine
