// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"

namespace phalanx::loadgen {

enum class Backend { kCompletions, kChat };

// One request of a run.
struct PlannedRequest {
  std::variant<std::string, std::vector<TokenId>> prompt;
  std::uint32_t max_tokens = 128;
  std::optional<std::string> expected_text;  // the answer must be exactly this
};

struct RandomWorkload {
  std::size_t count = 1000;
  std::uint32_t input_len = 1024;
  std::uint32_t output_len = 128;
  double range_ratio = 0.0;  // lengths are uniform in [len · (1 - ratio), len · (1 + ratio)]
  std::uint64_t seed = 0;
};

// Requests of random content. For completions a prompt is exactly input_len token ids below 256,
// which every byte-level vocabulary has; for chat it is a text of input_len short words. What was
// really counted is in the answer's usage.
[[nodiscard]] std::vector<PlannedRequest> random_workload(const RandomWorkload& options,
                                                          Backend backend);

// "count from A to B" with A … B as the answer, for a model that can count: an answer in which a
// lost or doubled token shows at once. At most 40 numbers below 999: the built-in model has all of
// these right.
[[nodiscard]] std::vector<PlannedRequest> count_workload(std::size_t count, std::uint64_t seed);

// Requests from JSON lines {"prompt": text, "output_tokens": N}; the second is optional. Repeats
// the lines from the top until there are `count`.
//
// Errors: kInvalidArgument naming the line; kNotFound the file cannot be read
[[nodiscard]] Result<std::vector<PlannedRequest>> parse_custom_workload(
    std::string_view lines, std::size_t count, std::uint32_t default_output_len);
[[nodiscard]] Result<std::vector<PlannedRequest>> load_custom_workload(
    const std::string& path, std::size_t count, std::uint32_t default_output_len);

// What every request of a run says besides its prompt.
struct RequestFields {
  std::string model;
  bool ignore_eos = false;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<std::int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::string extra_body_json;  // an object whose members are added; "" = none
};

// The body of a streaming request that asks for usage.
// Errors: kInvalidArgument extra_body_json is no object, or changes what a stream is
//                          audited by
[[nodiscard]] Result<std::string> request_body(const PlannedRequest& request,
                                               const RequestFields& fields,
                                               Backend backend);

}  // namespace phalanx::loadgen
