// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/rope.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/kernels/float_mode.h"
#include "phalanx/kernels/rows.h"

namespace phalanx::kernels {
namespace {

constexpr double kPi = 3.14159265358979323846;

RopeFrequencies frequencies_of(const RopeConfig& config) {
  auto result = make_rope_frequencies(config);
  EXPECT_TRUE(result.has_value());
  return std::move(result).value();
}

TEST(RopeFrequencies, AreThePowersOfTheta) {
  const RopeFrequencies frequencies = frequencies_of({.head_dim = 128, .theta = 1e6});
  ASSERT_EQ(frequencies.inverse.size(), 64U);
  EXPECT_EQ(frequencies.inverse[0], 1.0);
  for (std::size_t i = 0; i < 64; ++i) {
    const double expected = std::pow(1e6, -2.0 * static_cast<double>(i) / 128.0);
    EXPECT_NEAR(frequencies.inverse[i], expected, expected * 1e-14);
  }
}

TEST(RopeFrequencies, LinearDividesByTheFactor) {
  const RopeFrequencies plain = frequencies_of({.head_dim = 32});
  const RopeFrequencies scaled =
      frequencies_of({.head_dim = 32, .scaling = RopeScaling::kLinear, .factor = 4.0});
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(scaled.inverse[i], plain.inverse[i] / 4.0);
  }
}

// Straight from the published formula, in the form that works with wavelengths.
TEST(RopeFrequencies, Llama3BlendsBetweenTwoWavelengths) {
  RopeConfig config{.head_dim = 128, .theta = 500000.0};
  const RopeFrequencies plain = frequencies_of(config);
  config.scaling = RopeScaling::kLlama3;
  config.factor = 8.0;
  const RopeFrequencies scaled = frequencies_of(config);
  int kept = 0;
  int slowed = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    const double frequency = plain.inverse[i];
    const double wavelength = 2.0 * kPi / frequency;
    double expected = frequency;
    if (wavelength > 8192.0 / 1.0) {
      expected = frequency / 8.0;
      ++slowed;
    } else if (wavelength >= 8192.0 / 4.0) {
      const double smooth = (8192.0 / wavelength - 1.0) / (4.0 - 1.0);
      expected = (1.0 - smooth) * frequency / 8.0 + smooth * frequency;
    } else {
      ++kept;
    }
    EXPECT_NEAR(scaled.inverse[i], expected, expected * 1e-13);
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(slowed, 0);
}

TEST(RopeFrequencies, YarnRampsBetweenTheCorrectionDimensions) {
  RopeConfig config{.head_dim = 128, .theta = 1e6};
  const RopeFrequencies plain = frequencies_of(config);
  config.scaling = RopeScaling::kYarn;
  config.factor = 4.0;
  config.original_max_position_embeddings = 32768;
  const RopeFrequencies scaled = frequencies_of(config);
  const auto dimension = [](double turns) {
    return 128.0 * std::log(32768.0 / (turns * 2.0 * kPi)) / (2.0 * std::log(1e6));
  };
  const double low = std::floor(dimension(32.0));
  const double high = std::ceil(dimension(1.0));
  for (std::size_t i = 0; i < 64; ++i) {
    const double ramp = std::min(1.0, std::max(0.0, (static_cast<double>(i) - low) / (high - low)));
    const double frequency = plain.inverse[i];
    const double expected = frequency / 4.0 * ramp + frequency * (1.0 - ramp);
    EXPECT_NEAR(scaled.inverse[i], expected, expected * 1e-13);
  }
  EXPECT_NEAR(scaled.attention_factor, 0.1 * std::log(4.0) + 1.0, 1e-15);
  config.attention_factor = 1.25;
  EXPECT_EQ(frequencies_of(config).attention_factor, 1.25);
}

TEST(RopeFrequencies, RefusesWhatItCannotUse) {
  const double nan = std::nan("");
  const std::vector<RopeConfig> bad = {
      {.head_dim = 0},
      {.head_dim = 24},
      {.head_dim = 512},
      {.head_dim = 64, .theta = 0.0},
      {.head_dim = 64, .theta = nan},
      {.head_dim = 64, .scaling = RopeScaling::kLinear, .factor = 0.5},
      {.head_dim = 64, .scaling = RopeScaling::kLinear, .factor = nan},
      {.head_dim = 64,
       .scaling = RopeScaling::kLlama3,
       .factor = 8.0,
       .low_freq_factor = 4.0,
       .high_freq_factor = 4.0},
      {.head_dim = 64,
       .scaling = RopeScaling::kYarn,
       .factor = 4.0,
       .original_max_position_embeddings = 0.0},
      {.head_dim = 64,
       .scaling = RopeScaling::kYarn,
       .factor = 4.0,
       .original_max_position_embeddings = 6.0},
      {.head_dim = 64, .scaling = RopeScaling::kYarn, .factor = 4.0, .beta_fast = 0.5},
      {.head_dim = 32,
       .theta = 10.0,
       .scaling = RopeScaling::kYarn,
       .factor = 4.0,
       .original_max_position_embeddings = 524288.0},
      {.head_dim = 32, .scaling = RopeScaling::kDivisors, .divisors = std::vector<float>(15, 1.0F)},
      {.head_dim = 32, .scaling = RopeScaling::kDivisors, .divisors = std::vector<float>(16, 0.5F)},
      {.head_dim = 32,
       .scaling = RopeScaling::kDivisors,
       .divisors = std::vector<float>(16, static_cast<float>(nan))}};
  for (const RopeConfig& config : bad) {
    const auto result = make_rope_frequencies(config);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
  }
}

TEST(RopeRows, AreTheCosineAndSineOfTheAngle) {
  const FloatModeScope mode;
  const RopeFrequencies frequencies = frequencies_of({.head_dim = 64, .theta = 1e6});
  const std::vector<std::uint32_t> positions = {0, 1, 2, 31, 1000, 40959, 131071, 5, 16777215};
  const auto rows = static_cast<std::uint32_t>(positions.size());
  std::vector<float> cos(rows * 32);
  std::vector<float> sin(rows * 32);
  for (std::uint32_t tile = 0; tile < row_tiles(rows); ++tile) {
    rope_rows({&frequencies, positions.data(), rows, cos.data(), sin.data(), 32}, tile);
  }
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < 32; ++i) {
      const double angle = static_cast<double>(positions[row]) * frequencies.inverse[i];
      EXPECT_NEAR(double{cos[row * 32 + i]}, std::cos(angle), 0x1p-25 + 1e-12);
      EXPECT_NEAR(double{sin[row * 32 + i]}, std::sin(angle), 0x1p-25 + 1e-12);
    }
  }
  EXPECT_EQ(cos[0], 1.0F);
  EXPECT_EQ(sin[0], 0.0F);
}

TEST(RopeRows, DoNotDependOnTheFloatMode) {
  const RopeFrequencies frequencies = frequencies_of({.head_dim = 32});
  const std::uint32_t position = 12345;
  std::vector<float> plain(32);
  std::vector<float> flushed(32);
  rope_rows({&frequencies, &position, 1, plain.data(), plain.data() + 16, 16}, 0);
  const FloatModeScope mode;
  rope_rows({&frequencies, &position, 1, flushed.data(), flushed.data() + 16, 16}, 0);
  EXPECT_EQ(plain, flushed);
}

}  // namespace
}  // namespace phalanx::kernels
