// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "phalanx/base/printable.h"
#include "phalanx/base/utf8.h"
#include "phalanx/loadgen/report.h"

namespace phalanx::loadgen {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidth = 50;
constexpr std::size_t kLabelWidth = 40;
constexpr std::size_t kMaxShownErrors = 5;
constexpr std::size_t kMaxShownErrorBytes = 500;

struct Metric {
  std::string_view key;
  std::string_view title;
  LatencySummary Report::*summary;
};
constexpr std::array kMetrics = {
    Metric{"ttft", "Time to First Token", &Report::ttft},
    Metric{"tpot", "Time per Output Token (excl. 1st token)", &Report::tpot},
    Metric{"itl", "Inter-token Latency", &Report::itl},
    Metric{"e2el", "End-to-end Latency", &Report::e2el}};

// "99", "99.9", "inf"
std::string shortest(double number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {digits.data(), end};
}

std::string two_decimals(double value) {
  std::array<char, 320> digits{};  // the largest number has 312
  const int length = std::snprintf(digits.data(), digits.size(), "%.2f", value);
  return {digits.data(), static_cast<std::size_t>(length)};
}

void row(std::string& out, std::string label, const std::string& value) {
  label.resize(std::max(label.size(), kLabelWidth), ' ');
  out += label + value + "\n";
}

void headline(std::string& out, std::string_view title, char fill) {
  const std::size_t room = kWidth - std::min(kWidth, title.size());
  out +=
      std::string(room / 2, fill) + std::string(title) + std::string(room - room / 2, fill) + "\n";
}

bool is_shown(const Report& report, const Metric& metric) {
  const auto& shown = report.settings.metrics;
  return (report.*metric.summary).samples > 0 &&  // else there is nothing that took its time
         std::find(shown.begin(), shown.end(), metric.key) != shown.end();
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return result;
}

void latency_rows(std::string& out, const Report& report, const Metric& metric) {
  const LatencySummary& summary = report.*metric.summary;
  const std::string name = upper(metric.key) + " (ms):";
  headline(out, metric.title, '-');
  row(out, "Mean " + name, two_decimals(summary.mean));
  row(out, "Median " + name, two_decimals(summary.median));
  for (std::size_t i = 0; i < summary.percentiles.size(); ++i) {
    if (report.settings.percentiles[i] == 50) {
      continue;  // the median
    }
    row(out,
        "P" + shortest(report.settings.percentiles[i]) + " " + name,
        two_decimals(summary.percentiles[i]));
  }
}

void error_rows(std::string& out, const Report& report) {
  std::map<std::string, std::size_t> counts;
  for (const RequestRecord& record : report.records) {
    if (!record.error.empty()) {
      ++counts[record.error];
    }
  }
  std::vector<std::pair<std::size_t, std::string>> errors;
  errors.reserve(counts.size());
  for (const auto& [error, count] : counts) {
    errors.emplace_back(count, error);
  }
  std::sort(errors.rbegin(), errors.rend());
  headline(out, "Failures", '-');
  for (std::size_t i = 0; i < std::min(errors.size(), kMaxShownErrors); ++i) {
    const std::string& error = errors[i].second;
    const std::string_view shown = utf8_prefix(error, kMaxShownErrorBytes);
    out += std::to_string(errors[i].first) + " x " + printable(shown) +
           (shown.size() < error.size() ? "...\n" : "\n");
  }
  if (errors.size() > kMaxShownErrors) {
    out += "and " + std::to_string(errors.size() - kMaxShownErrors) + " other kinds\n";
  }
}

double per_second(double amount, const Report& report) {
  return report.duration_s > 0.0 ? amount / report.duration_s : 0.0;
}

void write_latency(Json& json,
                   const std::string& key,
                   const LatencySummary& summary,
                   const std::vector<double>& percentiles) {
  json["mean_" + key] = summary.mean;
  json["median_" + key] = summary.median;
  json["std_" + key] = summary.std;
  for (std::size_t i = 0; i < summary.percentiles.size(); ++i) {
    json["p" + shortest(percentiles[i]) + "_" + key] = summary.percentiles[i];
  }
}

// Lists with one entry per request, in the order of the workload; seconds, as the other tool has
// them.
void write_requests(Json& json, const std::vector<RequestRecord>& records) {
  for (const char* key : {"input_lens",
                          "output_lens",
                          "ttfts",
                          "itls",
                          "start_times",
                          "queue_times",
                          "generated_texts",
                          "errors"}) {
    json[key] = Json::array();
  }
  for (const RequestRecord& record : records) {
    const auto& times = record.token_times;
    json["input_lens"].push_back(record.input_tokens);
    json["output_lens"].push_back(record.output_tokens);
    json["ttfts"].push_back(times.empty() ? 0.0 : to_seconds(times.front() - record.intended));
    Json gaps = Json::array();
    for (std::size_t i = 1; i < times.size(); ++i) {
      gaps.push_back(to_seconds(times[i] - times[i - 1]));
    }
    json["itls"].push_back(std::move(gaps));
    json["start_times"].push_back(to_seconds(record.sent));
    json["queue_times"].push_back(to_seconds(record.sent - record.intended));
    json["generated_texts"].push_back(record.text);
    json["errors"].push_back(record.error);
  }
}

}  // namespace

std::string report_text(const Report& report) {
  const RunSettings& settings = report.settings;
  std::string out;
  headline(out, " Serving Benchmark Result ", '=');
  row(out, "Successful requests:", std::to_string(report.completed));
  row(out, "Failed requests:", std::to_string(report.failed));
  if (settings.max_concurrency) {
    row(out, "Maximum request concurrency:", std::to_string(*settings.max_concurrency));
  }
  if (!std::isinf(settings.request_rate)) {
    row(out, "Request rate configured (RPS):", two_decimals(settings.request_rate));
  }
  const auto input = static_cast<double>(report.total_input_tokens);
  const auto output = static_cast<double>(report.total_output_tokens);
  row(out, "Benchmark duration (s):", two_decimals(report.duration_s));
  row(out, "Total input tokens:", std::to_string(report.total_input_tokens));
  row(out, "Total generated tokens:", std::to_string(report.total_output_tokens));
  row(out,
      "Request throughput (req/s):",
      two_decimals(per_second(static_cast<double>(report.completed), report)));
  if (settings.goodput.any()) {
    row(out,
        "Request goodput (req/s):",
        two_decimals(per_second(static_cast<double>(report.good), report)));
  }
  row(out, "Output token throughput (tok/s):", two_decimals(per_second(output, report)));
  row(out,
      "Peak output token throughput (tok/s):",
      two_decimals(static_cast<double>(report.max_output_tokens_per_s)));
  row(out, "Peak concurrent requests:", std::to_string(report.max_concurrent_requests));
  row(out, "Total token throughput (tok/s):", two_decimals(per_second(input + output, report)));
  for (const Metric& metric : kMetrics) {
    if (is_shown(report, metric)) {
      latency_rows(out, report, metric);
    }
  }
  if (report.failed > 0) {
    error_rows(out, report);
  }
  return out + std::string(kWidth, '=') + "\n";
}

std::string report_json(const Report& report, const std::string& date) {
  const RunSettings& settings = report.settings;
  const auto input = static_cast<double>(report.total_input_tokens);
  const auto output = static_cast<double>(report.total_output_tokens);
  Json json;
  json["date"] = date;
  json["backend"] = settings.backend;
  json["label"] = settings.label.empty() ? Json() : Json(settings.label);
  json["model_id"] = settings.model_id;
  json["tokenizer_id"] = settings.model_id;
  json["num_prompts"] = report.records.size();
  json["request_rate"] =
      std::isinf(settings.request_rate) ? Json("inf") : Json(settings.request_rate);
  json["burstiness"] = settings.burstiness;
  json["max_concurrency"] = settings.max_concurrency ? Json(*settings.max_concurrency) : Json();
  json["duration"] = report.duration_s;
  json["completed"] = report.completed;
  json["failed"] = report.failed;
  json["total_input_tokens"] = report.total_input_tokens;
  json["total_output_tokens"] = report.total_output_tokens;
  json["request_throughput"] = per_second(static_cast<double>(report.completed), report);
  json["request_goodput"] =
      settings.goodput.any() ? Json(per_second(static_cast<double>(report.good), report)) : Json();
  json["output_throughput"] = per_second(output, report);
  json["total_token_throughput"] = per_second(input + output, report);
  json["max_output_tokens_per_s"] = report.max_output_tokens_per_s;
  json["max_concurrent_requests"] = report.max_concurrent_requests;
  json["rtfx"] = 0.0;
  write_requests(json, report.records);
  for (const Metric& metric : kMetrics) {
    write_latency(
        json, std::string(metric.key) + "_ms", report.*metric.summary, settings.percentiles);
  }
  write_latency(json, "client_queue_time_ms", report.client_queue_time, settings.percentiles);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string report_file_name(const RunSettings& settings, const std::string& date) {
  constexpr std::size_t kMaxNameBytes = 255;
  std::string name = (settings.label.empty() ? settings.backend : settings.label) + "-" +
                     shortest(settings.request_rate) + "qps-";
  if (settings.max_concurrency) {
    name += "concurrency" + std::to_string(*settings.max_concurrency) + "-";
  }
  name += settings.model_id;
  for (char& c : name) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    c = c == '/' || is_control ? '_' : c;
  }
  const std::string end = "-" + date + ".json";
  return std::string(utf8_prefix(name, kMaxNameBytes - end.size())) + end;
}

}  // namespace phalanx::loadgen
