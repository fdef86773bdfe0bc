// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/dispatch/router.h"
#include "phalanx/obs/metrics.h"
#include "phalanx/serving/serving_observer.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::serving {

// The metrics and log lines of the leader. The standard serving set has the names that dashboards
// and autoscalers already read (vllm:…); ours begin with phalanx_.
//
// Ownership: borrows the registry.
// Threads: the loop thread.
class ServingMetrics final : public ServingObserver {
 public:
  ServingMetrics(obs::MetricRegistry& registry, std::string model_name);

  void on_request_start(const RequestRecord& record,
                        std::uint32_t max_tokens,
                        const std::string& sampling) override;
  void on_first_token(Duration since_request) override;
  void on_next_token(Duration since_last_token) override;
  void on_request_end(const RequestRecord& record) override;
  void on_request_refused(const std::string& route, int status) override;

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
  void refresh_differences(std::size_t replicas, const dispatch::Dispatcher& dispatcher);
  void refresh_replica(ReplicaId replica, const wire::ReplicaStatus& status);

  obs::MetricRegistry& registry_;
  std::string model_name_;
  std::uint64_t finished_ = 0;
  std::uint64_t counted_redispatches_ = 0;
  obs::Counter& prompt_tokens_;
  obs::Counter& generation_tokens_;
  obs::Counter& redispatches_;
  obs::Histogram& first_token_;
  obs::Histogram& next_token_;
  obs::Histogram& per_output_token_;
  obs::Histogram& end_to_end_;
  obs::Histogram& prompt_size_;
  obs::Histogram& generation_size_;
};

}  // namespace phalanx::serving
