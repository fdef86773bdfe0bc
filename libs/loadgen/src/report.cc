// SPDX-License-Identifier: Apache-2.0
#include "phalanx/loadgen/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace phalanx::loadgen {
namespace {

std::size_t most_concurrent(const std::vector<RequestRecord>& records) {
  std::vector<std::pair<Duration, int>> steps;
  for (const RequestRecord& record : records) {
    steps.emplace_back(record.sent, 1);
    steps.emplace_back(record.end, -1);
  }
  std::sort(steps.begin(), steps.end());  // at the same time, ends come first
  int now = 0;
  int most = 0;
  for (const auto& [time, step] : steps) {
    now += step;
    most = std::max(most, now);
  }
  return static_cast<std::size_t>(most);
}

// Which of several tokens came with which event nobody says.
std::uint64_t busiest_second(const std::vector<RequestRecord>& records) {
  std::map<std::int64_t, double> tokens;
  double most = 0.0;
  for (const RequestRecord& record : records) {
    if (!record.error.empty()) {
      continue;
    }
    const double per_event =
        static_cast<double>(record.output_tokens) / static_cast<double>(record.token_times.size());
    for (const Duration time : record.token_times) {
      const auto second = std::chrono::floor<std::chrono::seconds>(time).count();
      most = std::max(most, tokens[second] += per_event);
    }
  }
  return static_cast<std::uint64_t>(std::llround(most));
}

struct Samples {
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> itl;
  std::vector<double> e2el;
  std::vector<double> queue;
};

// Of one request, in milliseconds; what it is too short for is absent.
struct Latencies {
  std::optional<double> ttft;
  std::optional<double> tpot;
  std::optional<double> e2el;
};

Latencies latencies_of(const RequestRecord& record) {
  Latencies result;
  const auto& times = record.token_times;
  if (!times.empty()) {
    result.ttft = to_milliseconds(times.front() - record.intended);
    result.e2el = to_milliseconds(times.back() - record.intended);
  }
  if (times.size() > 1 && record.output_tokens > 1) {
    result.tpot = (*result.e2el - *result.ttft) / static_cast<double>(record.output_tokens - 1);
  }
  return result;
}

bool is_good(const Latencies& request, const GoodputLimits& limits) {
  const auto within = [](const std::optional<double>& latency, const std::optional<double>& limit) {
    return !limit || !latency || *latency <= *limit;
  };
  return within(request.ttft, limits.ttft) && within(request.tpot, limits.tpot) &&
         within(request.e2el, limits.e2el);
}

void add(const std::optional<double>& sample, std::vector<double>& samples) {
  if (sample) {
    samples.push_back(*sample);
  }
}

void add_samples(const RequestRecord& record, const Latencies& latencies, Samples& samples) {
  samples.queue.push_back(to_milliseconds(record.sent - record.intended));
  add(latencies.ttft, samples.ttft);
  add(latencies.tpot, samples.tpot);
  add(latencies.e2el, samples.e2el);
  const auto& times = record.token_times;
  for (std::size_t i = 1; i < times.size(); ++i) {
    samples.itl.push_back(to_milliseconds(times[i] - times[i - 1]));
  }
}

}  // namespace

double percentile_of(const std::vector<double>& sorted, double percentile) {
  if (sorted.empty()) {
    return 0.0;
  }
  const double rank = percentile / 100.0 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(rank));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], rank - static_cast<double>(below));
}

LatencySummary summarize(std::vector<double> samples, const std::vector<double>& percentiles) {
  LatencySummary summary;
  summary.samples = samples.size();
  std::sort(samples.begin(), samples.end());
  if (!samples.empty()) {
    const auto count = static_cast<double>(samples.size());
    summary.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
    double squares = 0.0;
    for (const double sample : samples) {
      squares += (sample - summary.mean) * (sample - summary.mean);
    }
    summary.std = std::sqrt(squares / count);
    summary.median = percentile_of(samples, 50);
  }
  for (const double percentile : percentiles) {
    summary.percentiles.push_back(percentile_of(samples, percentile));
  }
  return summary;
}

Report build_report(RunSettings settings, std::vector<RequestRecord> records, Duration duration) {
  Report report;
  report.duration_s = to_seconds(duration);
  report.max_output_tokens_per_s = busiest_second(records);
  report.max_concurrent_requests = most_concurrent(records);
  Samples samples;
  for (const RequestRecord& record : records) {
    if (!record.error.empty()) {
      ++report.failed;
      report.unreached += record.unreached ? 1U : 0U;
      continue;
    }
    ++report.completed;
    report.total_input_tokens += record.input_tokens;
    report.total_output_tokens += record.output_tokens;
    const Latencies latencies = latencies_of(record);
    report.good += is_good(latencies, settings.goodput) ? 1U : 0U;
    add_samples(record, latencies, samples);
  }
  report.ttft = summarize(std::move(samples.ttft), settings.percentiles);
  report.tpot = summarize(std::move(samples.tpot), settings.percentiles);
  report.itl = summarize(std::move(samples.itl), settings.percentiles);
  report.e2el = summarize(std::move(samples.e2el), settings.percentiles);
  report.client_queue_time = summarize(std::move(samples.queue), settings.percentiles);
  report.settings = std::move(settings);
  report.records = std::move(records);
  return report;
}

}  // namespace phalanx::loadgen
