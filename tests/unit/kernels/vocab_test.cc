// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/vocab.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "phalanx/base/philox.h"

#include "kernel_inputs.h"
#include "scalar_math.h"

namespace phalanx::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(std::uint32_t count, std::uint64_t seed) {
  Inputs inputs(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) {
    logit = inputs.uniform() * 12.0F;
    if (inputs.below(10) == 0) {
      logit = -kInfinity;  // banned
    }
    if (inputs.below(10) == 0) {
      logit = 3.25F;  // ties
    }
    if (inputs.below(40) == 0) {
      logit = inputs.below(2) == 0 ? 0.0F : -0.0F;
    }
  }
  return logits;
}

VocabPeak peak_of(const KernelTable& table, const VocabSlice& slice) {
  VocabPeak peak;
  table.vocab_max(slice, &peak);
  return peak;
}

VocabPeak draw(const KernelTable& table,
               const VocabSlice& slice,
               const VocabKeep& keep,
               const GumbelKey& key) {
  VocabPeak peak;
  table.gumbel_max(slice, keep, key, &peak);
  return peak;
}

void expect_same_peak(const VocabPeak& actual, const VocabPeak& expected) {
  EXPECT_EQ(actual.id, expected.id);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(actual.value),
            std::bit_cast<std::uint32_t>(expected.value));
  EXPECT_EQ(actual.finite, expected.finite);
}

class VocabOnEachIsa : public EachIsa {};

TEST_P(VocabOnEachIsa, MaxEqualsRef) {
  for (std::uint32_t count = 0; count < 70; ++count) {
    const std::vector<float> logits = random_logits(count, count);
    const VocabSlice slice{logits.data(), count, 1000};
    expect_same_peak(peak_of(table(), slice), peak_of(ref(), slice));
  }
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const std::vector<float> logits = floats(90, seed, Kind::kLawless);
    const VocabSlice slice{logits.data(), 90, 0};
    expect_same_peak(peak_of(table(), slice), peak_of(ref(), slice));
  }
}

TEST_P(VocabOnEachIsa, DivisionEqualsRefAndMayBeInPlace) {
  for (const std::uint32_t count : {0U, 1U, 15U, 16U, 33U, 500U}) {
    std::vector<float> logits = floats(count, count, Kind::kLawless);
    for (const float temperature : {1e-6F, 0.7F, 1.0F, 2.0F, 1e30F}) {
      std::vector<float> expected(count);
      ref().divide_by_temperature(logits.data(), expected.data(), count, temperature);
      std::vector<float> actual = logits;
      actual.push_back(7.0F);
      table().divide_by_temperature(actual.data(), actual.data(), count, temperature);
      EXPECT_EQ(actual.back(), 7.0F) << "beyond the end";
      for (std::uint32_t i = 0; i < count; ++i) {
        if (std::isnan(expected[i])) {
          EXPECT_TRUE(std::isnan(actual[i]));
        } else {
          EXPECT_EQ(std::bit_cast<std::uint32_t>(actual[i]),
                    std::bit_cast<std::uint32_t>(expected[i]));
        }
      }
    }
  }
}

TEST_P(VocabOnEachIsa, MassAndHistogramEqualRef) {
  for (std::uint32_t count = 1; count < 200; count += 7) {
    const std::vector<float> logits = random_logits(count, count);
    const VocabSlice slice{logits.data(), count, 77};
    const float maximum = 12.0F;
    for (const VocabKeep keep : {VocabKeep{}, VocabKeep{logit_key(3.25F), 77 + 20}}) {
      EXPECT_EQ(table().vocab_mass(slice, keep, maximum), ref().vocab_mass(slice, keep, maximum));
      for (const int shift : {24, 16, 8, 0}) {
        VocabHistogram actual;
        VocabHistogram expected;
        const VocabHistogramArgs args{slice, keep, maximum, logit_key(3.25F), shift};
        table().vocab_histogram(args, &actual);
        ref().vocab_histogram(args, &expected);
        EXPECT_TRUE(std::ranges::equal(actual.count, expected.count));
        EXPECT_TRUE(std::ranges::equal(actual.mass, expected.mass));
      }
    }
  }
}

// Masses keep every bit of exp near 0, so this holds exp itself to the definition.
TEST_P(VocabOnEachIsa, MassOfEachLogitEqualsRef) {
  Inputs inputs(6);
  for (int i = 0; i < 50000; ++i) {
    const float logit = -std::abs(inputs.uniform()) * static_cast<float>(1U << inputs.below(6));
    ASSERT_EQ(table().vocab_mass({&logit, 1, 0}, {}, 0.0F),
              ref().vocab_mass({&logit, 1, 0}, {}, 0.0F))
        << logit;
  }
}

TEST_P(VocabOnEachIsa, GumbelEqualsRefAtEveryAlignment) {
  const std::vector<float> logits = random_logits(300, 5);
  for (std::uint32_t first = 0; first < 70; ++first) {
    for (const std::uint32_t count : {0U, 1U, 3U, 16U, 65U, 150U}) {
      const VocabSlice slice{logits.data() + first, count, static_cast<TokenId>(first)};
      const GumbelKey key{0x123456789ABCDEF0ULL + first, first % 3, count};
      expect_same_peak(draw(table(), slice, {}, key), draw(ref(), slice, {}, key));
      const VocabKeep keep{logit_key(3.25F), static_cast<TokenId>(first + 9)};
      expect_same_peak(draw(table(), slice, keep, key), draw(ref(), slice, keep, key));
    }
  }
}

TEST_P(VocabOnEachIsa, GumbelEqualsRefForManyKeys) {
  // Equal logits: every token may win, so that a wrong bit anywhere shows.
  const std::vector<float> logits(64, 1.0F);
  for (std::uint32_t position = 0; position < 4000; ++position) {
    const GumbelKey key{42, 0, position};
    expect_same_peak(draw(table(), {logits.data(), 64, 128}, {}, key),
                     draw(ref(), {logits.data(), 64, 128}, {}, key));
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, VocabOnEachIsa, ::testing::ValuesIn(vector_isas()), isa_test_name);

class Vocab : public ::testing::Test {
 protected:
  const KernelTable& ref_ = kernel_table(Isa::kRef);

 private:
  FloatModeScope mode_;
};

TEST_F(Vocab, PartsAddUpToTheWholeWhereverItIsCut) {
  const std::vector<float> logits = random_logits(150, 8);
  const VocabSlice whole{logits.data(), 150, 0};
  const VocabPeak peak = peak_of(ref_, whole);
  const GumbelKey key{7, 1, 2};
  for (std::uint32_t cut = 0; cut <= 150; cut += 13) {
    const VocabSlice left{logits.data(), cut, 0};
    const VocabSlice right{logits.data() + cut, 150 - cut, static_cast<TokenId>(cut)};
    expect_same_peak(VocabPeak::merge(peak_of(ref_, left), peak_of(ref_, right)), peak);
    EXPECT_EQ(ref_.vocab_mass(left, {}, peak.value) + ref_.vocab_mass(right, {}, peak.value),
              ref_.vocab_mass(whole, {}, peak.value));
    expect_same_peak(VocabPeak::merge(draw(ref_, left, {}, key), draw(ref_, right, {}, key)),
                     draw(ref_, whole, {}, key));
  }
}

TEST_F(Vocab, MaxNamesTheLowestIdOfATie) {
  const std::vector<float> logits = {1.0F, 5.0F, 2.0F, 5.0F};
  const VocabPeak peak = peak_of(ref_, {logits.data(), 4, 10});
  EXPECT_EQ(peak.id, 11);
  EXPECT_EQ(peak.value, 5.0F);
  EXPECT_TRUE(peak.finite);
}

TEST_F(Vocab, MaxReportsWhatIsNotANumber) {
  for (const float bad : {kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<float> logits = {1.0F, bad, 2.0F};
    EXPECT_FALSE(peak_of(ref_, {logits.data(), 3, 0}).finite);
  }
  const std::vector<float> banned = {1.0F, -kInfinity};
  EXPECT_TRUE(peak_of(ref_, {banned.data(), 2, 0}).finite);
}

TEST_F(Vocab, MassIsTheSoftmaxInFixedPoint) {
  const std::vector<float> logits = random_logits(500, 3);
  const float maximum = peak_of(ref_, {logits.data(), 500, 0}).value;
  double sum = 0.0;
  for (const float logit : logits) {
    sum += std::exp(double{logit} - double{maximum});
  }
  const auto mass = ref_.vocab_mass({logits.data(), 500, 0}, {}, maximum);
  EXPECT_NEAR(static_cast<double>(mass) * 0x1p-30, sum, sum * 1e-6 + 500 * 0x1p-31);
  EXPECT_NEAR(double{log_softmax(logits[0], maximum, mass)},
              double{logits[0]} - double{maximum} - std::log(sum),
              2e-6);
}

TEST_F(Vocab, HistogramFindsTheKthLogit) {
  const std::vector<float> logits = random_logits(400, 21);
  std::vector<float> sorted = logits;
  std::ranges::sort(sorted, std::greater<>());
  for (const std::uint64_t k : {1U, 10U, 150U, 400U}) {
    std::uint32_t prefix = 0;
    std::uint64_t wanted = k;
    for (const int shift : {24, 16, 8, 0}) {
      VocabHistogram histogram;
      ref_.vocab_histogram({{logits.data(), 400, 0}, {}, 12.0F, prefix, shift}, &histogram);
      std::uint32_t bucket = 255;
      while (histogram.count[bucket] < wanted) {
        wanted -= histogram.count[bucket--];
      }
      prefix |= bucket << shift;
    }
    EXPECT_EQ(logit_of_key(prefix), sorted[k - 1]);
  }
}

TEST_F(Vocab, GumbelDrawsInProportionToTheMasses) {
  const std::vector<float> logits = {
      0.0F, std::log(2.0F), std::log(3.0F), -kInfinity, std::log(4.0F)};
  constexpr int kDraws = 20000;
  std::array<int, 5> hits{};
  for (std::uint32_t position = 0; position < kDraws; ++position) {
    const VocabPeak peak = draw(ref_, {logits.data(), 5, 0}, {}, {99, 0, position});
    ASSERT_GE(peak.id, 0);
    ++hits[static_cast<std::size_t>(peak.id)];
  }
  const std::array<double, 5> share = {0.1, 0.2, 0.3, 0.0, 0.4};
  for (std::size_t i = 0; i < share.size(); ++i) {
    // Five standard deviations.
    const double deviation = std::sqrt(kDraws * share[i] * (1.0 - share[i]));
    EXPECT_NEAR(hits[i], kDraws * share[i], 5.0 * deviation);
  }
}

TEST_F(Vocab, GumbelDependsOnEveryPartOfItsKey) {
  const std::vector<float> logits(4096, 0.0F);
  const VocabSlice slice{logits.data(), 4096, 0};
  const TokenId base = draw(ref_, slice, {}, {1, 0, 0}).id;
  EXPECT_NE(draw(ref_, slice, {}, {2, 0, 0}).id, base);
  EXPECT_NE(draw(ref_, slice, {}, {1ULL << 32 | 1, 0, 0}).id, base);
  EXPECT_NE(draw(ref_, slice, {}, {1, 1, 0}).id, base);
  EXPECT_NE(draw(ref_, slice, {}, {1, 0, 1}).id, base);
}

TEST_F(Vocab, GumbelOfNothingKeptIsNoToken) {
  const std::vector<float> logits(3, -kInfinity);
  EXPECT_EQ(draw(ref_, {logits.data(), 3, 0}, {}, {1, 0, 0}).id, -1);
}

TEST_F(Vocab, KeysOrderAsTheLogits) {
  const std::vector<float> ascending = {
      -kInfinity, -1e30F, -1.0F, -0x1p-126F, 0.0F, 0x1p-126F, 0x1p-10F, 1.0F, 1e30F, kInfinity};
  for (std::size_t i = 1; i < ascending.size(); ++i) {
    EXPECT_LT(logit_key(ascending[i - 1]), logit_key(ascending[i]));
    EXPECT_EQ(logit_of_key(logit_key(ascending[i])), ascending[i]);
  }
  EXPECT_EQ(logit_key(-0.0F), logit_key(0.0F));
  EXPECT_EQ(logit_key(0x1p-140F), logit_key(0.0F));
}

TEST_F(Vocab, MassTargetRoundsUp) {
  EXPECT_EQ(mass_target(1.0F, 12345), 12345);
  EXPECT_EQ(mass_target(0.5F, 3), 2);
  EXPECT_EQ(mass_target(0.5F, 4), 2);
  EXPECT_EQ(mass_target(1e-9F, 4), 1);
}

TEST_F(Vocab, MinPFloorIsTheLogitOfThatShare) {
  EXPECT_EQ(min_p_floor(2.0F, 1.0F), 2.0F);
  EXPECT_NEAR(min_p_floor(2.0F, 0.1F), 2.0 + std::log(0.1), 1e-6);
}

TEST_F(Vocab, PenaltiesApplyInTheirOrder) {
  const TokenPenalty penalty{2.0F, 0.5F, 0.25F};
  EXPECT_EQ(penalised_logit(4.0F, penalty, false, 0, 0.0F), 4.0F);
  EXPECT_EQ(penalised_logit(4.0F, penalty, true, 0, 0.0F), 2.0F);
  EXPECT_EQ(penalised_logit(-4.0F, penalty, true, 0, 0.0F), -8.0F);
  EXPECT_EQ(penalised_logit(4.0F, penalty, true, 3, 1.0F), 2.0F - 0.5F - 0.75F + 1.0F);
  EXPECT_EQ(penalised_logit(4.0F, penalty, false, 0, -kInfinity), -kInfinity);
}

TEST_F(Vocab, TopIsTheSortedPrefix) {
  for (const std::uint32_t count : {1U, 5U, 21U, 300U}) {
    const std::vector<float> logits = random_logits(count, count);
    std::vector<VocabCandidate> expected;
    for (std::uint32_t i = 0; i < count; ++i) {
      expected.push_back({logits[i], static_cast<TokenId>(i) + 50});
    }
    std::ranges::sort(expected, before);
    std::array<VocabCandidate, 21> top{};
    const std::size_t found = vocab_top({logits.data(), count, 50}, top);
    ASSERT_EQ(found, std::min<std::size_t>(21, count));
    for (std::size_t i = 0; i < found; ++i) {
      EXPECT_EQ(top[i].id, expected[i].id);
    }
  }
}

// Maxima of every size, so that differences are exact, rounded, and rounded away.
std::vector<float> maxima() {
  std::vector<float> result = {0.0F};
  for (int exponent = -20; exponent < 127; ++exponent) {
    for (const float significand : {1.0F, 1.37F, 1.9999999F}) {
      result.push_back(std::ldexp(significand, exponent));
      result.push_back(-std::ldexp(significand, exponent));
    }
  }
  return result;
}

TEST(VocabBounds, BelowTheFloorOfMassesThereAreNone) {
  for (const float maximum : maxima()) {
    float logit = mass_floor(maximum);
    ASSERT_LE(logit, maximum);
    for (int i = 0; i < 3; ++i) {
      logit = std::nextafter(logit, -kInfinity);
      ASSERT_EQ(kernel_table(Isa::kRef).vocab_mass({&logit, 1, 0}, {}, maximum), 0) << maximum;
    }
  }
}

TEST(VocabBounds, BelowTheFloorOfNoiseNoneWins) {
  for (const float maximum : maxima()) {
    float logit = noise_floor(maximum);
    ASSERT_LE(logit, maximum);
    for (int i = 0; i < 3; ++i) {
      logit = std::nextafter(logit, -kInfinity);
      ASSERT_LT(logit + kMostNoise, maximum + kLeastNoise) << maximum;
    }
  }
}

TEST(VocabBounds, HoldTheNoise) {
  Inputs inputs(9);
  std::vector<std::uint32_t> words = {0, 1, 0xFFFFFFFF, 0xFFFFFFFE, 0x80000000};
  for (int i = 0; i < 100000; ++i) {
    words.push_back(inputs.below(0xFFFFFFFF) >> inputs.below(32));
    words.push_back(~words.back());
  }
  for (const std::uint32_t word : words) {
    ASSERT_GT(scalar::gumbel(word), kLeastNoise) << word;
    ASSERT_LT(scalar::gumbel(word), kMostNoise) << word;
  }
}

}  // namespace
}  // namespace phalanx::kernels
