// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"

namespace phalanx::loadgen {

// What became of one request. Times count from the start of the run.
struct RequestRecord {
  Duration intended{};  // when it should have been sent; latencies count from here
  Duration sent{};
  std::vector<Duration> token_times;  // of events; servers may join tokens in one
  Duration end{};
  std::uint64_t input_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::string text;
  std::string error;       // "" = it succeeded and its audit is clean
  bool unreached = false;  // no connection was made
};

// A request is good if none of its latencies is longer, in milliseconds, and it succeeded.
struct GoodputLimits {
  std::optional<double> ttft{};
  std::optional<double> tpot{};  // a request of one token has none
  std::optional<double> e2el{};
  [[nodiscard]] bool any() const { return ttft || tpot || e2el; }
};

// The settings of a run as the report repeats them.
struct RunSettings {
  std::string backend;
  std::string label;
  std::string model_id;
  double request_rate = 0.0;  // may be infinite
  double burstiness = 1.0;
  std::optional<std::size_t> max_concurrency;
  std::vector<std::string> metrics = {"ttft", "tpot", "itl", "e2el"};
  std::vector<double> percentiles = {50, 90, 95, 99};
  GoodputLimits goodput = {};
};

// Statistics of one latency, in milliseconds. All zero if there are no samples.
struct LatencySummary {
  std::size_t samples = 0;  // all others are 0 without any
  double mean = 0.0;
  double median = 0.0;
  double std = 0.0;
  std::vector<double> percentiles;  // in the order of RunSettings::percentiles
};

// Linear interpolation between the closest ranks, as numpy does. `percentile` in [0, 100].
[[nodiscard]] double percentile_of(const std::vector<double>& sorted, double percentile);
[[nodiscard]] LatencySummary summarize(std::vector<double> samples,
                                       const std::vector<double>& percentiles);

struct Report {
  RunSettings settings;
  std::vector<RequestRecord> records;
  double duration_s = 0.0;
  std::size_t completed = 0;
  std::size_t failed = 0;
  std::size_t unreached = 0;  // of those that failed
  std::size_t good = 0;       // within settings.goodput; meaningful if that limits anything
  std::uint64_t total_input_tokens = 0;
  std::uint64_t total_output_tokens = 0;
  std::uint64_t max_output_tokens_per_s = 0;  // in the busiest second
  std::size_t max_concurrent_requests = 0;
  LatencySummary ttft;               // first token
  LatencySummary tpot;               // per token behind the first; requests of two tokens and more
  LatencySummary itl;                // between two events of tokens
  LatencySummary e2el;               // last token
  LatencySummary client_queue_time;  // between intended and sent
};

// Latencies are those of the requests that succeeded.
[[nodiscard]] Report build_report(RunSettings settings,
                                  std::vector<RequestRecord> records,
                                  Duration duration);

// As people read it.
[[nodiscard]] std::string report_text(const Report& report);

// One JSON object with the keys of vLLM's serving benchmark. `date` as YYYYMMDD-HHMMSS.
[[nodiscard]] std::string report_json(const Report& report, const std::string& date);

// What the file of a result is called: a name without a folder that any file system takes, however
// long what it is made of. `date` likewise.
[[nodiscard]] std::string report_file_name(const RunSettings& settings, const std::string& date);

}  // namespace phalanx::loadgen
