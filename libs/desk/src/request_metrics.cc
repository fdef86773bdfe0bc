// SPDX-License-Identifier: Apache-2.0
#include "phalanx/desk/request_metrics.h"

#include <utility>

#include "phalanx/obs/log.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::desk {

namespace {

// The edges that vLLM's dashboards expect, with finer ones below 10 ms, where a small model lives.
const std::vector<double> kTokenGapBuckets = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
    0.4,    0.5,   0.75,   1,     2.5,  5,     7.5,  10,    20,  40,   80};
const std::vector<double> kFirstTokenBuckets = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                                0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                                20,    40,    80,   160,  640,  2560};
const std::vector<double> kEndToEndBuckets = {0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1,  1.5,
                                              2,    2.5,  5,   10,  15,  20,  30, 40,
                                              50,   60,   120, 240, 480, 960};
const std::vector<double> kTokenCountBuckets = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

// As vllm names it.
const std::string& reason_of(const std::string& outcome) {
  static const std::string kAbort = "abort";
  return outcome == wire::outcome::kClientGone ? kAbort : outcome;
}

// The seed as requests name it; prompts for which different ones were drawn share none.
std::string sampling_summary(const step::SamplingParams& sampling,
                             std::optional<std::uint64_t> seed) {
  return "temperature=" + std::to_string(sampling.temperature) +
         " top_k=" + std::to_string(sampling.top_k) + " top_p=" + std::to_string(sampling.top_p) +
         (seed ? " seed=" + std::to_string(static_cast<std::int64_t>(*seed)) : "");
}

// "7,8,9"
std::string listed(const auto& ids) {
  std::string text;
  for (const auto id : ids) {
    text += (text.empty() ? "" : ",") + std::to_string(id.value());
  }
  return text;
}

}  // namespace

RequestMetrics::RequestMetrics(obs::MetricRegistry& registry, std::string model_name)
    : registry_(registry),
      model_name_(std::move(model_name)),
      prompt_tokens_(registry.counter(
          "vllm:prompt_tokens_total", "Prompt tokens of accepted requests", labels())),
      generation_tokens_(registry.counter(
          "vllm:generation_tokens_total",
          "Tokens generated for clients, with those that came until a stop string was seen",
          labels())),
      first_token_(registry.histogram("vllm:time_to_first_token_seconds",
                                      "From the end of the request to its first token",
                                      kFirstTokenBuckets,
                                      labels())),
      next_token_(registry.histogram("vllm:inter_token_latency_seconds",
                                     "Between two tokens of a choice",
                                     kTokenGapBuckets,
                                     labels())),
      per_output_token_(registry.histogram("vllm:request_time_per_output_token_seconds",
                                           "Mean time per token after the first, per request",
                                           kTokenGapBuckets,
                                           labels())),
      end_to_end_(registry.histogram("vllm:e2e_request_latency_seconds",
                                     "From the end of the request to the end of the answer",
                                     kEndToEndBuckets,
                                     labels())),
      queue_(registry.histogram("vllm:request_queue_time_seconds",
                                "From the hand-over of its tokens to the first step of the attempt "
                                "that gave its first token, per request",
                                kEndToEndBuckets,
                                labels())),
      prefill_(registry.histogram(
          "vllm:request_prefill_time_seconds",
          "From the first step of the attempt that gave the first token to that token, per request",
          kEndToEndBuckets,
          labels())),
      decode_(registry.histogram("vllm:request_decode_time_seconds",
                                 "From the first token to the end of the answer, per request",
                                 kEndToEndBuckets,
                                 labels())),
      inference_(registry.histogram("vllm:request_inference_time_seconds",
                                    "Prefill and decode time together, per request",
                                    kEndToEndBuckets,
                                    labels())),
      prompt_size_(registry.histogram(
          "vllm:request_prompt_tokens", "Prompt tokens per request", kTokenCountBuckets, labels())),
      generation_size_(registry.histogram("vllm:request_generation_tokens",
                                          "Generated tokens per request",
                                          kTokenCountBuckets,
                                          labels())),
      longest_choice_(registry.histogram("vllm:request_max_num_generation_tokens",
                                         "Generated tokens of the longest choice of a request",
                                         kTokenCountBuckets,
                                         labels())) {}

obs::Labels RequestMetrics::labels_of(ReplicaId replica) const {
  return {{"model_name", model_name_}, {"engine", std::to_string(replica.value())}};
}

void RequestMetrics::on_request_start(const RequestRecord& record,
                                      std::uint32_t max_tokens,
                                      const step::SamplingParams& sampling,
                                      std::optional<std::uint64_t> seed) {
  prompt_tokens_.add(static_cast<double>(record.prompt_tokens));
  prompt_size_.observe(static_cast<double>(record.prompt_tokens));
  obs::log_info("request_start",
                {{"req", record.id},
                 {"number", listed(record.numbers)},
                 {"route", record.route},
                 {"stream", record.stream},
                 {"choices", record.choices},
                 {"prompt_tokens", record.prompt_tokens},
                 {"max_tokens", max_tokens},
                 {"sampling", sampling_summary(sampling, seed)},
                 {"tokenize_ms", to_milliseconds(record.tokenize_time)}});
}

void RequestMetrics::on_token() {
  generation_tokens_.add();
}

void RequestMetrics::on_first_token(Duration since_request) {
  first_token_.observe(to_seconds(since_request));
}

void RequestMetrics::on_next_token(Duration since_last_token) {
  next_token_.observe(to_seconds(since_last_token));
}

void RequestMetrics::on_request_end(const RequestRecord& record) {
  ++finished_;
  generation_size_.observe(static_cast<double>(record.completion_tokens));
  longest_choice_.observe(static_cast<double>(record.longest_choice));
  end_to_end_.observe(to_seconds(record.duration));
  const Duration decode =
      record.longest_choice > 0 ? record.duration - record.time_to_first_token : Duration::zero();
  if (record.longest_choice > 0) {
    queue_.observe(to_seconds(record.queue_time));
    prefill_.observe(to_seconds(record.prefill_time));
    decode_.observe(to_seconds(decode));
    inference_.observe(to_seconds(record.prefill_time + decode));
  }
  if (record.longest_choice > 1) {
    per_output_token_.observe(to_seconds(decode) / static_cast<double>(record.longest_choice - 1));
  }
  obs::Labels outcome = labels();
  outcome["finished_reason"] = reason_of(record.outcome);
  registry_.counter("vllm:request_success_total", "Ended requests by outcome", outcome).add();
  obs::log_info("request_end",
                {{"req", record.id},
                 {"number", listed(record.numbers)},
                 {"replicas", listed(record.replicas)},
                 {"attempts", record.attempts},
                 {"outcome", record.outcome},
                 {"error", record.error},
                 {"prompt_tokens", record.prompt_tokens},
                 {"cached_tokens", record.cached_tokens},
                 {"completion_tokens", record.completion_tokens},
                 {"queue_ms", to_milliseconds(record.queue_time)},
                 {"prefill_ms", to_milliseconds(record.prefill_time)},
                 {"ttft_ms", to_milliseconds(record.time_to_first_token)},
                 {"decode_ms", to_milliseconds(decode)},
                 {"total_ms", to_milliseconds(record.duration)}});
}

void RequestMetrics::on_request_refused(const std::string& route, int status) {
  obs::Labels refused = labels();
  refused["status"] = std::to_string(status);
  registry_
      .counter(
          "phalanx_requests_refused_total",
          "Requests that were refused before they ran, for their fields, their model or a full "
          "queue; not what HTTP itself refuses",
          refused)
      .add();
  obs::log_debug("request_refused", {{"route", route}, {"status", status}});
}

void RequestMetrics::refresh(const dispatch::Router& router,
                             const dispatch::Dispatcher& dispatcher,
                             const std::map<ReplicaId, wire::ReplicaStatus>& status,
                             Duration longest_loop_lag) {
  for (const auto& [replica, report] : status) {
    if (report.kv_blocks_total > 0) {  // of one that is gone nothing is left to say
      refresh_reported(replica, report);
    }
  }
  for (std::uint32_t i = 0; i < router.table().size(); ++i) {
    refresh_dispatched(ReplicaId(i), router, dispatcher);
  }
  const obs::Readings readings(registry_, labels());
  readings.counter("phalanx_redispatches_total",
                   "Choices sent to another replica after their own failed",
                   dispatcher.redispatches());
  readings.gauge("phalanx_requests_waiting_for_replica",
                 "Choices that no replica could take yet",
                 dispatcher.waiting());
  readings.gauge("phalanx_loop_lag_seconds",
                 "Longest time since the last scrape that the leader's loop stood still",
                 to_seconds(longest_loop_lag));
}

// What the leader has on a replica.
void RequestMetrics::refresh_dispatched(ReplicaId replica,
                                        const dispatch::Router& router,
                                        const dispatch::Dispatcher& dispatcher) {
  constexpr const char* kOwed = "Tokens that the replica still owes";
  constexpr const char* kDiffer =
      "Sequences that leader and replica disagreed about when last compared: unknown to the "
      "leader, missing in the replica";
  const obs::Readings readings(registry_, labels_of(replica));
  const dispatch::Remainder pending = router.ledger().pending(replica);
  const dispatch::Difference& difference = dispatcher.difference(replica);
  readings.gauge(
      "phalanx_replica_ready", "1 while the replica takes work", router.table().at(replica).ready);
  const auto of_kind = [&](const char* kind) { return readings.with("kind", kind); };
  of_kind("to_compute").gauge("phalanx_pending_tokens", kOwed, pending.to_compute);
  of_kind("to_generate").gauge("phalanx_pending_tokens", kOwed, pending.to_generate);
  of_kind("unknown").gauge("phalanx_sequence_difference", kDiffer, difference.unknown);
  of_kind("missing").gauge("phalanx_sequence_difference", kDiffer, difference.missing);
  readings.gauge("phalanx_unsent_cancels",
                 "Cancellations that the link has not taken yet",
                 dispatcher.unsent_cancels(replica));
}

// What a replica says of itself. What it counts from its start on goes with it, and begins anew.
void RequestMetrics::refresh_reported(ReplicaId replica, const wire::ReplicaStatus& status) {
  const obs::Readings readings(registry_, labels_of(replica));
  readings.gauge("vllm:num_requests_running", "Sequences in the replica's batch", status.running);
  readings.gauge("vllm:num_requests_waiting", "Sequences that wait in the replica", status.waiting);
  const double total = status.kv_blocks_total;
  readings.gauge("vllm:kv_cache_usage_perc",
                 "Used part of the KV cache, 0 … 1",
                 1.0 - static_cast<double>(status.kv_blocks_free) / total);
  readings.gauge("phalanx_kv_blocks_cached",
                 "Free KV blocks whose contents are kept for prompts that begin alike",
                 status.kv_blocks_cached);
  readings.counter("vllm:prefix_cache_queries_total",
                   "Prompt tokens of the sequences admitted since the replica started",
                   status.prefix_tokens_asked);
  readings.counter("vllm:prefix_cache_hits_total",
                   "Prompt tokens found in the prefix cache since the replica started",
                   status.prefix_tokens_found);
  readings.counter("vllm:num_preemptions_total",
                   "Sequences preempted since the replica started",
                   status.preemptions);
  readings.gauge(
      "phalanx_step_budget_rows",
      "Prompt tokens that fit into a step beside a running answer within --max-step-ms, as learnt",
      status.step_budget_rows);
  readings.counter("phalanx_drains_total",
                   "Steps that ended by abort and drain since the replica started",
                   status.drains);
  readings.counter("phalanx_stale_replies_total",
                   "Replies of older epochs or steps, dropped, since the replica started",
                   status.stale_replies);
  std::uint64_t restarts = 0;
  for (const wire::RankStatus& rank : status.ranks) {
    restarts += rank.restarts;
  }
  readings.counter(
      "phalanx_rank_restarts_total", "Ranks started again since the replica started", restarts);
}

void RequestMetrics::forget_replica(ReplicaId replica) {
  registry_.remove_series("engine", std::to_string(replica.value()));
}

}  // namespace phalanx::desk
