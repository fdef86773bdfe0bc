// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/rope.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "phalanx/kernels/layout.h"
#include "phalanx/kernels/rows.h"

#include "scalar_math.h"

namespace phalanx::kernels {

namespace {

constexpr double kTwoPi = 0x1.921fb54442d18p+2;

Error bad_field(const std::string& field, const std::string& expected, double found) {
  return invalid_argument("rope: " + field + " must be " + expected + ", found " +
                          std::to_string(found));
}

// NaN fails every comparison, so each test is written to be true for what is good.
Status check_llama3(const RopeConfig& config) {
  if (!(config.low_freq_factor > 0.0 && config.low_freq_factor < 1e6)) {
    return bad_field("low_freq_factor", "above 0", config.low_freq_factor);
  }
  if (!(config.high_freq_factor > config.low_freq_factor && config.high_freq_factor < 1e6)) {
    return bad_field("high_freq_factor", "above low_freq_factor", config.high_freq_factor);
  }
  return ok();
}

// The (real) index of the frequency that makes `turns` turns within the original context.
double yarn_index(const RopeConfig& config, double turns) {
  return static_cast<double>(config.head_dim) *
         scalar::log(config.original_max_position_embeddings / (turns * kTwoPi)) /
         (2.0 * scalar::log(config.theta));
}

Status check_yarn(const RopeConfig& config) {
  if (!(config.beta_slow > 0.0 && config.beta_slow < 1e6)) {
    return bad_field("beta_slow", "above 0", config.beta_slow);
  }
  if (!(config.beta_fast >= config.beta_slow && config.beta_fast < 1e6)) {
    return bad_field("beta_fast", "at least beta_slow", config.beta_fast);
  }
  // With fewer the ramp ends before it begins, which each reader of such a file does otherwise.
  if (!(config.original_max_position_embeddings >= kTwoPi * config.beta_slow)) {
    return bad_field(
        "original_max_position_embeddings",
        "what makes beta_slow turns, " + std::to_string(kTwoPi * config.beta_slow) + ", or more",
        config.original_max_position_embeddings);
  }
  // With more it begins behind the last frequency.
  if (!(std::floor(yarn_index(config, config.beta_fast)) < config.head_dim)) {
    return bad_field("original_max_position_embeddings",
                     "what makes fewer than beta_fast turns at the highest of frequencies",
                     config.original_max_position_embeddings);
  }
  if (!(config.attention_factor >= 0.0 && config.attention_factor < 1e3)) {
    return bad_field("attention_factor", "at least 0", config.attention_factor);
  }
  return ok();
}

Status check_divisors(const RopeConfig& config) {
  if (config.divisors.size() != config.head_dim / 2) {
    return bad_field("divisors",
                     std::to_string(config.head_dim / 2) + " numbers",
                     static_cast<double>(config.divisors.size()));
  }
  for (const float divisor : config.divisors) {
    if (!(divisor >= 1.0F && divisor < 1e6F)) {
      return bad_field("a divisor", "at least 1", static_cast<double>(divisor));
    }
  }
  return ok();
}

Status check_scaling(const RopeConfig& config) {
  if (config.scaling == RopeScaling::kDivisors) {
    return check_divisors(config);
  }
  if (!(config.factor >= 1.0 && config.factor < 1e6)) {
    return bad_field("factor", "at least 1", config.factor);
  }
  if (config.scaling == RopeScaling::kLinear) {
    return ok();
  }
  const double original = config.original_max_position_embeddings;
  if (!(original >= 1.0 && original < 1e9)) {
    return bad_field("original_max_position_embeddings", "a number of positions", original);
  }
  return config.scaling == RopeScaling::kLlama3 ? check_llama3(config) : check_yarn(config);
}

Status check_config(const RopeConfig& config) {
  if (config.head_dim == 0 || config.head_dim % 16 != 0 || config.head_dim > kMaxHeadDim) {
    return bad_field("head_dim", "a multiple of 16 up to 256", config.head_dim);
  }
  if (!(config.theta > 1.0 && config.theta < 1e30)) {
    return bad_field("theta", "above 1", config.theta);
  }
  return config.scaling == RopeScaling::kNone ? ok() : check_scaling(config);
}

// Long waves are slowed by the factor, short ones kept, those between blended.
void scale_llama3(const RopeConfig& config, std::vector<double>* inverse) {
  for (double& frequency : *inverse) {
    const double turns = config.original_max_position_embeddings * frequency / kTwoPi;
    const double slowed = frequency / config.factor;
    if (turns < config.low_freq_factor) {
      frequency = slowed;
    } else if (turns <= config.high_freq_factor) {
      const double kept =
          (turns - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor);
      frequency = (1.0 - kept) * slowed + kept * frequency;
    }
  }
}

void scale_yarn(const RopeConfig& config, RopeFrequencies* frequencies) {
  const double last = static_cast<double>(config.head_dim) - 1.0;
  const double low = std::clamp(std::floor(yarn_index(config, config.beta_fast)), 0.0, last);
  double high = std::clamp(std::ceil(yarn_index(config, config.beta_slow)), 0.0, last);
  if (low == high) {
    high += 0.001;
  }
  for (std::size_t i = 0; i < frequencies->inverse.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double frequency = frequencies->inverse[i];
    frequencies->inverse[i] = frequency / config.factor * ramp + frequency * (1.0 - ramp);
  }
  frequencies->attention_factor = config.attention_factor != 0.0
                                      ? config.attention_factor
                                      : 0.1 * scalar::log(config.factor) + 1.0;
}

}  // namespace

Result<RopeFrequencies> make_rope_frequencies(const RopeConfig& config) {
  PHALANX_RETURN_IF_ERROR(check_config(config));
  RopeFrequencies frequencies;
  const double log_theta = scalar::log(config.theta);
  for (std::uint32_t i = 0; i < config.head_dim / 2; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(config.head_dim);
    frequencies.inverse.push_back(scalar::exp(-(exponent * log_theta)));
  }
  switch (config.scaling) {
    case RopeScaling::kNone:
      break;
    case RopeScaling::kLinear:
      for (double& frequency : frequencies.inverse) {
        frequency /= config.factor;
      }
      break;
    case RopeScaling::kLlama3:
      scale_llama3(config, &frequencies.inverse);
      break;
    case RopeScaling::kYarn:
      scale_yarn(config, &frequencies);
      break;
    case RopeScaling::kDivisors:
      for (std::size_t i = 0; i < frequencies.inverse.size(); ++i) {
        frequencies.inverse[i] /= static_cast<double>(config.divisors[i]);
      }
      break;
  }
  return frequencies;
}

void rope_rows(const RopeRowsArgs& args, std::uint32_t tile) {
  const RopeFrequencies& frequencies = *args.frequencies;
  const std::uint32_t end = std::min((tile + 1) * kRowTile, args.rows);
  for (std::uint32_t row = tile * kRowTile; row < end; ++row) {
    for (std::size_t i = 0; i < frequencies.inverse.size(); ++i) {
      double sine = 0.0;
      double cosine = 0.0;
      scalar::sin_cos(
          static_cast<double>(args.positions[row]) * frequencies.inverse[i], &sine, &cosine);
      const std::size_t at = row * args.rope_stride + i;
      args.cos[at] = static_cast<float>(cosine * frequencies.attention_factor);
      args.sin[at] = static_cast<float>(sine * frequencies.attention_factor);
    }
  }
}

}  // namespace phalanx::kernels
