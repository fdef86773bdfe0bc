// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/flags/flag_table.h"
#include "phalanx/http/message.h"
#include "phalanx/loadgen/report.h"
#include "phalanx/loadgen/workload.h"

namespace phalanx::load {

// What one run of phalanx-load does. Spelled as in `vllm bench serve`.
struct Options {
  std::string backend = "openai";
  std::string base_url;  // set: it wins over host and port
  std::string host = "127.0.0.1";
  std::int64_t port = 8000;
  std::string endpoint;  // "" = that of the backend
  std::string model;     // "" = the first one that the server lists

  std::string dataset_name = "random";
  std::string dataset_path;
  std::int64_t num_prompts = 1000;
  std::int64_t random_input_len = 1024;
  std::int64_t random_output_len = 128;
  double random_range_ratio = 0.0;
  std::int64_t custom_output_len = 256;
  std::int64_t num_warmups = 0;
  std::int64_t seed = 0;
  bool verify_counts = false;

  double request_rate = std::numeric_limits<double>::infinity();
  double burstiness = 1.0;
  std::int64_t max_concurrency = 0;  // 0 = no limit
  double request_timeout_s = 600.0;
  bool audit_usage = true;

  loadgen::RequestFields fields;
  std::vector<std::string> headers;  // "Name: value"

  std::vector<std::string> metrics = {"ttft", "tpot", "itl", "e2el"};
  std::vector<double> percentiles = {50, 90, 95, 99};
  loadgen::GoodputLimits goodput;
  bool save_result = false;
  std::string result_dir = ".";
  std::string result_filename;
  std::string label;
  bool show_progress = true;

  // Derived by parse_options().
  loadgen::Backend api = loadgen::Backend::kCompletions;
  http::Headers http_headers;
  std::string model_list = "/v1/models";  // path
};

struct ParsedOptions {
  std::optional<std::string> print_and_exit;  // the help or the version
  Options options;
  std::vector<flags::FlagTable::Note> notes;  // what was left aside
};

// Errors: kInvalidArgument with one line that names the flag.
[[nodiscard]] Result<ParsedOptions> parse_options(
    const std::vector<std::string>& arguments,
    const std::map<std::string, std::string>& environment);

}  // namespace phalanx::load
