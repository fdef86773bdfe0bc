// SPDX-License-Identifier: Apache-2.0
#include "phalanx/loadgen/workload.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "phalanx/os/read_file.h"

namespace phalanx::loadgen {
namespace {

constexpr TokenId kByteTokens = 256;

constexpr std::size_t kMaxDatasetBytes = std::size_t{4} << 30;

// Lengths of the answers of a count workload, in numbers. Of all counts below 999 the built-in
// model has those of up to 40 numbers right in bf16, and the first wrong one has 41 (156 to 196).
constexpr int kCountNumbersMin = 5;
constexpr int kMaxCountNumbers = 40;
constexpr int kMaxCountValue = 999;
// A number of three digits and its space are four tokens where every character is one.
constexpr std::uint32_t kMaxTokensPerNumber = 4;

// 100 · (1 + 0.1) is a little more than 110.
constexpr double kRounding = 1e-6;

class Lengths {
 public:
  Lengths(std::uint32_t length, double range_ratio)
      : distribution_(at_least_one(std::floor(length * (1 - range_ratio) + kRounding)),
                      at_least_one(std::ceil(length * (1 + range_ratio) - kRounding))) {}

  std::uint32_t operator()(std::mt19937_64& random) { return distribution_(random); }

 private:
  static std::uint32_t at_least_one(double length) {
    return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(length));
  }

  std::uniform_int_distribution<std::uint32_t> distribution_;
};

std::string random_words(std::uint32_t count, std::mt19937_64& random) {
  std::uniform_int_distribution<int> letter('a', 'z');
  std::string text;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i > 0) {
      text.push_back(' ');
    }
    text.push_back(static_cast<char>(letter(random)));
  }
  return text;
}

std::vector<TokenId> random_tokens(std::uint32_t count, std::mt19937_64& random) {
  std::uniform_int_distribution<TokenId> token(0, kByteTokens - 1);
  std::vector<TokenId> tokens(count);
  for (TokenId& id : tokens) {
    id = token(random);
  }
  return tokens;
}

}  // namespace

std::vector<PlannedRequest> random_workload(const RandomWorkload& options, Backend backend) {
  std::mt19937_64 random(options.seed);
  Lengths input(options.input_len, options.range_ratio);
  Lengths output(options.output_len, options.range_ratio);
  std::vector<PlannedRequest> requests(options.count);
  for (PlannedRequest& request : requests) {
    const std::uint32_t length = input(random);
    if (backend == Backend::kChat) {
      request.prompt = random_words(length, random);
    } else {
      request.prompt = random_tokens(length, random);
    }
    request.max_tokens = output(random);
  }
  return requests;
}

std::vector<PlannedRequest> count_workload(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int> numbers(kCountNumbersMin, kMaxCountNumbers);
  std::vector<PlannedRequest> requests(count);
  for (PlannedRequest& request : requests) {
    const int length = numbers(random);
    const int first = std::uniform_int_distribution<int>(0, kMaxCountValue - length)(random);
    const int last = first + length - 1;
    std::string answer;
    for (int value = first; value <= last; ++value) {
      answer += (value == first ? "" : " ") + std::to_string(value);
    }
    request.prompt = "count from " + std::to_string(first) + " to " + std::to_string(last);
    request.max_tokens = static_cast<std::uint32_t>(length) * kMaxTokensPerNumber + 16;
    request.expected_text = std::move(answer);
  }
  return requests;
}

Result<std::vector<PlannedRequest>> load_custom_workload(const std::string& path,
                                                         std::size_t count,
                                                         std::uint32_t default_output_len) {
  const auto lines = os::read_file(path, kMaxDatasetBytes);
  if (!lines) {
    return not_found("cannot read the dataset " + lines.error().message());
  }
  auto requests = parse_custom_workload(*lines, count, default_output_len);
  if (!requests) {
    return std::move(requests).error().with(path);
  }
  return requests;
}

}  // namespace phalanx::loadgen
