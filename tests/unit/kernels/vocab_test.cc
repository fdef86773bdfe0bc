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

// A list in memory of its own, with a token behind its end that must stay as it is.
struct List {
  List(const KernelTable& table, const VocabListArgs& args, std::uint32_t capacity)
      : logits(capacity + 1, 1234.0F), ids(capacity + 1, -7) {
    list = {logits.data(), ids.data(), capacity, 99};
    fits = table.vocab_list(args, &list, &unlisted_mass);
    EXPECT_EQ(logits.back(), 1234.0F);
    EXPECT_EQ(ids.back(), -7);
  }

  std::vector<float> logits;
  std::vector<TokenId> ids;
  VocabList list;
  bool fits = false;
  std::int64_t unlisted_mass = -1;
};

void expect_same_list(const KernelTable& actual, const KernelTable& expected, VocabListArgs args) {
  const List all(expected, args, args.slice.count);
  ASSERT_TRUE(all.fits);
  const std::uint32_t count = all.list.count;
  for (const std::uint32_t capacity : {count, count + 1, args.slice.count + 16}) {
    const List list(actual, args, capacity);
    ASSERT_TRUE(list.fits);
    ASSERT_EQ(list.list.count, count);
    EXPECT_EQ(list.unlisted_mass, all.unlisted_mass);
    for (std::uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(list.ids[i], all.ids[i]);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(list.logits[i]),
                std::bit_cast<std::uint32_t>(all.logits[i]));
    }
  }
  for (const std::uint32_t less : {1U, 2U, 17U, count}) {
    if (less <= count && less > 0) {
      EXPECT_FALSE(List(actual, args, count - less).fits);
      EXPECT_FALSE(List(expected, args, count - less).fits);
    }
  }
}

// As a trained model's: nearly all tokens far below a few.
std::vector<float> peaked_logits(std::uint32_t count, std::uint64_t seed) {
  Inputs inputs(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) {
    logit = inputs.below(150) == 0 ? 12.0F + inputs.uniform() : inputs.uniform() * 4.0F - 20.0F;
  }
  return logits;
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

TEST_P(VocabOnEachIsa, ListEqualsRefFullAndOverfull) {
  const float maximum = 13.0F;
  for (std::uint32_t count = 0; count < 700; count += count < 130 ? 7 : 93) {
    const std::vector<float> extremes(count, -kInfinity);
    const std::vector<float> equal(count, 3.25F);
    for (const auto& logits :
         {random_logits(count, count), peaked_logits(count, count), extremes, equal}) {
      const VocabSlice slice{logits.data(), count, 77};
      for (const VocabKeep keep : {VocabKeep{},
                                   VocabKeep{logit_key(3.25F), 77 + 20},
                                   VocabKeep{logit_key(0.0F), 77 + 90},
                                   VocabKeep{logit_key(-9.0F), 0x7FFFFFFF},
                                   VocabKeep{logit_key(kInfinity), 0}}) {
        for (const float floor : {-kInfinity, -12.0F, -0.0F, 3.25F, 8.0F, kInfinity}) {
          expect_same_list(table(), ref(), {slice, keep, logit_key(floor), maximum});
        }
      }
    }
  }
}

TEST_P(VocabOnEachIsa, GumbelOfAListEqualsThatOfItsTokens) {
  for (std::uint32_t count = 0; count < 400; count += 19) {
    for (const auto& logits : {random_logits(count, count + 3), peaked_logits(count, count)}) {
      const VocabSlice slice{logits.data(), count, 4 * 16 + 3};
      for (const VocabKeep keep : {VocabKeep{}, VocabKeep{logit_key(3.25F), 90}}) {
        const List list(table(), {slice, keep, keep.floor_key, 13.0F}, count);
        for (std::uint32_t position = 0; position < 20; ++position) {
          const GumbelKey key{0x123456789ABCDEF0ULL + count, position % 3, position};
          for (const VocabKeep may_win : {keep, VocabKeep{logit_key(3.25F), 70}}) {
            VocabPeak peak;
            table().gumbel_max_of_list(list.list, may_win, key, &peak);
            VocabPeak by_ref;
            ref().gumbel_max_of_list(list.list, may_win, key, &by_ref);
            expect_same_peak(peak, by_ref);
            const bool is_narrower = may_win.last_tied_id <= keep.last_tied_id;
            if (is_narrower || keep.floor_key == 0) {
              expect_same_peak(peak, draw(ref(), slice, may_win, key));
            }
          }
        }
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

// Many more tokens than lanes, so that most can be seen to lose before their noise is known; where
// sums round to the larger one, many tie.
TEST_P(VocabOnEachIsa, GumbelEqualsRefOverManyTokens) {
  Inputs inputs(12);
  for (const float spread : {0.0F, 0.5F, 3.0F, 30.0F, 1e4F, 3e7F, 1e30F}) {
    for (const float middle : {0.0F, -7.5F, 1e6F, -3e8F}) {
      std::vector<float> logits(3001);
      for (float& logit : logits) {
        logit = inputs.below(20) == 0 ? -kInfinity : middle + inputs.uniform() * spread;
      }
      for (std::uint32_t position = 0; position < 12; ++position) {
        const std::uint32_t first = position * 11;
        const VocabSlice slice{logits.data() + first, 2800, static_cast<TokenId>(first + 5)};
        const GumbelKey key{99, position, position};
        for (const VocabKeep keep : {VocabKeep{}, VocabKeep{logit_key(middle), 1500}}) {
          expect_same_peak(draw(table(), slice, keep, key), draw(ref(), slice, keep, key));
        }
      }
    }
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

// The tokens below are at most so many, and the tokens that are kept have 2^30 or more.
TEST(VocabBounds, BelowTheFloorOfTopPNoneIsNeeded) {
  for (const float maximum : maxima()) {
    for (const float p : {0.0F, 0.01F, 0.5F, 0.9F, 0.95F, 0.999F, 0.9999F, 0.99999994F}) {
      for (const std::uint32_t tokens : {1U, 20U, 203U, 32000U, 151936U, 1U << 24}) {
        const float floor = top_p_floor(maximum, p, tokens);
        ASSERT_GE(floor, mass_floor(maximum));
        ASSERT_LE(floor, maximum);
        const auto spare = static_cast<double>((std::int64_t{1} << 30) - mass_target(p, 1 << 30));
        float logit = floor;
        for (int i = 0; i < 3; ++i) {
          logit = std::nextafter(logit, -kInfinity);
          const std::int64_t mass = kernel_table(Isa::kRef).vocab_mass({&logit, 1, 0}, {}, maximum);
          ASSERT_LE(static_cast<double>(mass) * tokens, spare)
              << maximum << " p " << p << " tokens " << tokens;
        }
      }
    }
  }
  EXPECT_GT(top_p_floor(0.0F, 0.95F, 151936), -15.0F) << "far above the floor of masses";
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
