// SPDX-License-Identifier: Apache-2.0
#include "phalanx/loadgen/report.h"

#include <limits>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace phalanx::loadgen {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

TEST(Percentiles, InterpolateBetweenTheClosestRanks) {
  const std::vector<double> samples = {10, 20, 30, 40};
  EXPECT_DOUBLE_EQ(percentile_of(samples, 0), 10);
  EXPECT_DOUBLE_EQ(percentile_of(samples, 50), 25);
  EXPECT_DOUBLE_EQ(percentile_of(samples, 99), 39.7);
  EXPECT_DOUBLE_EQ(percentile_of(samples, 100), 40);
  EXPECT_DOUBLE_EQ(percentile_of({7}, 99), 7);
  EXPECT_DOUBLE_EQ(percentile_of({}, 99), 0);
}

TEST(Summary, DoesNotDependOnTheOrder) {
  const LatencySummary summary = summarize({40, 10, 30, 20}, {50, 75});
  EXPECT_DOUBLE_EQ(summary.mean, 25);
  EXPECT_DOUBLE_EQ(summary.median, 25);
  EXPECT_NEAR(summary.std, 11.1803398875, 1e-9);
  EXPECT_EQ(summary.percentiles, (std::vector<double>{25, 32.5}));
}

RequestRecord record(int intended, int sent, std::vector<int> tokens) {
  RequestRecord result;
  result.intended = milliseconds(intended);
  result.sent = milliseconds(sent);
  for (const int time : tokens) {
    result.token_times.emplace_back(milliseconds(time));
  }
  result.end = milliseconds(tokens.empty() ? sent : tokens.back());
  result.input_tokens = 10;
  result.output_tokens = tokens.size();
  result.text = "text";
  return result;
}

Report sample_report() {
  std::vector<RequestRecord> records = {record(0, 100, {300, 400, 600}), record(500, 500, {1600})};
  RequestRecord failed = record(550, 550, {700});
  failed.error = "the stream was cut before [DONE]";
  records.push_back(failed);
  RunSettings settings;
  settings.backend = "openai-chat";
  settings.model_id = "tiny";
  settings.request_rate = std::numeric_limits<double>::infinity();
  settings.max_concurrency = 2;
  settings.percentiles = {50, 99.9};
  return build_report(settings, records, milliseconds(2000));
}

TEST(Report, CountsLatenciesFromTheIntendedTime) {
  const Report report = sample_report();
  EXPECT_EQ(report.completed, 2U);
  EXPECT_EQ(report.failed, 1U);
  EXPECT_EQ(report.total_input_tokens, 20U);
  EXPECT_EQ(report.total_output_tokens, 4U);
  EXPECT_DOUBLE_EQ(report.ttft.mean, (300.0 + 1100.0) / 2);
  EXPECT_DOUBLE_EQ(report.e2el.mean, (600.0 + 1100.0) / 2);
  EXPECT_DOUBLE_EQ(report.tpot.mean, 150.0) << "one token has no time per further token";
  EXPECT_DOUBLE_EQ(report.itl.mean, 150.0);
  EXPECT_DOUBLE_EQ(report.client_queue_time.mean, 50.0);
  EXPECT_EQ(report.max_concurrent_requests, 3U);
  EXPECT_EQ(report.max_output_tokens_per_s, 3U) << "those of requests that succeeded";
}

// Servers may say several tokens in one event, or the end in one of its own.
TEST(Report, CountsTokensAndNotEvents) {
  RequestRecord joined = record(0, 0, {100, 300, 900});
  joined.output_tokens = 9;
  RequestRecord apart = record(0, 0, {100, 200, 300});
  apart.output_tokens = 2;
  RequestRecord one = record(0, 0, {100, 101});
  one.output_tokens = 1;
  const Report report = build_report({}, {joined, apart, one}, milliseconds(1000));
  EXPECT_DOUBLE_EQ(report.tpot.mean, (800.0 / 8 + 200.0 / 1) / 2);
  EXPECT_EQ(report.max_output_tokens_per_s, 12U);
}

TEST(Report, AStreamWithoutEventsHasNoTimePerToken) {
  RequestRecord silent = record(0, 0, {});
  silent.output_tokens = 5;
  const Report report = build_report({}, {silent}, milliseconds(1000));
  EXPECT_EQ(report.tpot.mean, 0.0);
  EXPECT_EQ(report.max_output_tokens_per_s, 0U);
}

// Of the two that succeed one has 300 ms to the first token, 150 per further one and 600 in all,
// the other 1100 and 1100; two seconds.
TEST(Report, CountsGoodRequestsPerSecond) {
  const auto goodput_of = [](const GoodputLimits& limits) {
    Report report = sample_report();
    report.settings.goodput = limits;
    report = build_report(report.settings, report.records, milliseconds(2000));
    return json::parse(report_json(report, ""))["request_goodput"];
  };
  EXPECT_EQ(goodput_of({}), nullptr) << "nothing is limited";
  EXPECT_EQ(goodput_of({.ttft = 1100.0}), 1.0) << "both, and not the one that failed";
  EXPECT_EQ(goodput_of({.ttft = 300.0}), 0.5);
  EXPECT_EQ(goodput_of({.ttft = 299.0}), 0.0);
  EXPECT_EQ(goodput_of({.tpot = 150.0}), 1.0) << "one token has no time per further token";
  EXPECT_EQ(goodput_of({.tpot = 149.0}), 0.5);
  EXPECT_EQ(goodput_of({.ttft = 300.0, .tpot = 149.0}), 0.0);
  EXPECT_EQ(goodput_of({.e2el = 600.0}), 0.5);
}

TEST(ReportText, CutsALongError) {
  Report report = sample_report();
  report.records.back().error = std::string(300'000, 'x');
  const std::string text = report_text(report);
  EXPECT_NE(text.find("1 x " + std::string(500, 'x') + "...\n"), std::string::npos);
  EXPECT_LT(text.size(), 10'000U);
}

TEST(ReportText, NamesGoodputOnlyIfItIsLimited) {
  Report report = sample_report();
  EXPECT_EQ(report_text(report).find("goodput"), std::string::npos);
  report.settings.goodput.ttft = 300.0;
  EXPECT_NE(report_text(report).find("Request goodput (req/s):"), std::string::npos);
}

TEST(ReportJson, HasTheKeysThatOtherToolsRead) {
  const json result = json::parse(report_json(sample_report(), "20260101-120000"));
  for (const char* key : {"date",
                          "backend",
                          "label",
                          "model_id",
                          "tokenizer_id",
                          "num_prompts",
                          "request_rate",
                          "burstiness",
                          "max_concurrency",
                          "duration",
                          "completed",
                          "failed",
                          "total_input_tokens",
                          "total_output_tokens",
                          "request_throughput",
                          "request_goodput",
                          "output_throughput",
                          "total_token_throughput",
                          "max_output_tokens_per_s",
                          "max_concurrent_requests",
                          "input_lens",
                          "output_lens",
                          "ttfts",
                          "itls",
                          "start_times",
                          "generated_texts",
                          "errors",
                          "rtfx",
                          "queue_times"}) {
    EXPECT_TRUE(result.contains(key)) << key;
  }
  for (const std::string metric :
       {"ttft_ms", "tpot_ms", "itl_ms", "e2el_ms", "client_queue_time_ms"}) {
    for (const std::string statistic : {"mean_", "median_", "std_", "p50_", "p99.9_"}) {
      EXPECT_TRUE(result.contains(statistic + metric)) << statistic << metric;
    }
  }
  EXPECT_EQ(result["request_rate"], "inf");
  EXPECT_EQ(result["num_prompts"], 3);
  EXPECT_DOUBLE_EQ(result["output_throughput"].get<double>(), 2.0);
  EXPECT_EQ(result["errors"], json::parse(R"(["", "", "the stream was cut before [DONE]"])"));
  EXPECT_EQ(result["itls"][0].size(), 2U);
}

TEST(ReportFileName, IsOneThatAFileCanHave) {
  RunSettings settings;
  settings.backend = "openai";
  settings.model_id = "org/tiny";
  settings.request_rate = 10;
  EXPECT_EQ(report_file_name(settings, "20260101-120000"),
            "openai-10qps-org_tiny-20260101-120000.json");
  settings.request_rate = std::numeric_limits<double>::infinity();
  settings.max_concurrency = 2;
  settings.label = "a/b";
  EXPECT_EQ(report_file_name(settings, "d"), "a_b-infqps-concurrency2-org_tiny-d.json");
  for (std::size_t length = 200; length < 300; ++length) {
    settings.model_id = std::string(length, 'm') + "\u00e9\u00e9";
    const std::string name = report_file_name(settings, "20260101-120000");
    EXPECT_LE(name.size(), 255U);
    EXPECT_TRUE(name.ends_with("m-20260101-120000.json") ||
                name.ends_with("\u00e9-20260101-120000.json"))
        << name;
  }
}

// Errors hold what servers say.
TEST(ReportText, NothingFromAServerReachesTheTerminalRaw) {
  Report report = sample_report();
  for (RequestRecord& record : report.records) {
    record.error = "\x1b[2J\n0 x nothing";
  }
  const std::string text = report_text(report);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("3 x \\u{1b}[2J\\u{a}0 x nothing\n"), std::string::npos) << text;
}

TEST(ReportText, ShowsCountsLatenciesAndFailures) {
  const std::string text = report_text(sample_report());
  for (const char* part : {"Serving Benchmark Result",
                           "Successful requests:                    2\n",
                           "Failed requests:                        1\n",
                           "Mean TTFT (ms):",
                           "Median TPOT (ms):",
                           "P99.9 ITL (ms):",
                           "1 x the stream was cut before [DONE]"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("P50 "), std::string::npos) << "it is the median";
}

TEST(ReportText, ShowsTheLargestRateWhole) {
  Report report = sample_report();
  report.settings.request_rate = std::numeric_limits<double>::max();
  const std::string text = report_text(report);
  EXPECT_EQ(text.find('\0'), std::string::npos);
  EXPECT_NE(text.find("Request rate configured (RPS):"), std::string::npos);
  EXPECT_NE(text.find("858368.00\n"), std::string::npos) << text;
}

TEST(Report, CountsRequestsThatReachedNoServer) {
  RequestRecord refused = record(0, 0, {});
  refused.error = "cannot connect";
  refused.unreached = true;
  RequestRecord lost = record(0, 0, {});
  lost.error = "lost";
  const Report report = build_report({}, {refused, lost, record(0, 0, {1})}, milliseconds(1000));
  EXPECT_EQ(report.failed, 2U);
  EXPECT_EQ(report.unreached, 1U);
}

TEST(ReportText, ShowsOnlyTheMetricsAskedFor) {
  Report report = sample_report();
  report.settings.metrics = {"ttft"};
  const std::string text = report_text(report);
  EXPECT_NE(text.find("Mean TTFT"), std::string::npos);
  EXPECT_EQ(text.find("Mean ITL"), std::string::npos);
}

}  // namespace
}  // namespace phalanx::loadgen
