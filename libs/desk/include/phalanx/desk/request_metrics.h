// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/ids.h"
#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/dispatch/router.h"
#include "phalanx/obs/metrics.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::desk {

// One request, told once at its end.
struct RequestRecord {
  std::string id;       // X-Request-Id
  std::string route;    // "/v1/chat/completions"
  std::string outcome;  // of wire::outcome; of several choices that of the last
  std::string error;
  std::vector<RequestId> numbers;  // of its prompts, as the dispatcher counts them
  std::set<ReplicaId> replicas;    // that it was sent to
  std::uint32_t attempts = 0;      // most of a choice
  bool stream = false;
  std::uint32_t choices = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  // of them, found in a prefix cache
  std::uint64_t completion_tokens = 0;
  std::uint64_t longest_choice = 0;  // its tokens
  Duration tokenize_time{};          // parsing, template and tokenization, as its front says
  Duration time_to_first_token{};    // zero if there was none
  Duration queue_time{};             // with the first token: that of its attempt, as in …
  Duration prefill_time{};           // … dispatch::TokenEvent
  Duration duration{};               // from its admission to the end of the answer
};

// The metrics and log lines of the leader. The standard serving set has the names that dashboards
// and autoscalers already read (vllm:…); ours begin with phalanx_.
//
// Ownership: borrows the registry.
// Threads: the loop thread.
class RequestMetrics {
 public:
  RequestMetrics(obs::MetricRegistry& registry, std::string model_name);

  // Tokenized and handed to the dispatcher. `seed`: of all prompts, if they have the same.
  void on_request_start(const RequestRecord& record,
                        std::uint32_t max_tokens,
                        const step::SamplingParams& sampling,
                        std::optional<std::uint64_t> seed);
  void on_token();  // of any choice, as it comes
  void on_first_token(Duration since_request);
  void on_next_token(Duration since_last_token);  // of the same choice
  void on_request_end(const RequestRecord& record);
  void on_request_refused(const std::string& route, int status);

  // Sets what is read and not counted, before the registry is served. `status` has an entry per
  // replica that has ever reported.
  void refresh(const dispatch::Router& router,
               const dispatch::Dispatcher& dispatcher,
               const std::map<ReplicaId, wire::ReplicaStatus>& status,
               Duration longest_loop_lag);

  // What a dead replica last said must not stay.
  void forget_replica(ReplicaId replica);

  [[nodiscard]] std::uint64_t finished() const { return finished_; }

 private:
  [[nodiscard]] obs::Labels labels() const { return {{"model_name", model_name_}}; }
  [[nodiscard]] obs::Labels labels_of(ReplicaId replica) const;
  void refresh_dispatched(ReplicaId replica,
                          const dispatch::Router& router,
                          const dispatch::Dispatcher& dispatcher);
  void refresh_reported(ReplicaId replica, const wire::ReplicaStatus& status);

  obs::MetricRegistry& registry_;
  std::string model_name_;
  std::uint64_t finished_ = 0;
  obs::Counter& prompt_tokens_;
  obs::Counter& generation_tokens_;
  obs::Histogram& first_token_;
  obs::Histogram& next_token_;
  obs::Histogram& per_output_token_;
  obs::Histogram& end_to_end_;
  obs::Histogram& queue_;
  obs::Histogram& prefill_;
  obs::Histogram& decode_;
  obs::Histogram& inference_;
  obs::Histogram& prompt_size_;
  obs::Histogram& generation_size_;
  obs::Histogram& longest_choice_;
};

}  // namespace phalanx::desk
