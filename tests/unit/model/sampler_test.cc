// SPDX-License-Identifier: Apache-2.0
// The phases against a reference that sorts, over several shards and with many ties.
#include "phalanx/model/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "phalanx/step/sampling.h"
#include "phalanx/tensor/arena.h"

#include "support/table_memory.h"

namespace phalanx::model {
namespace {

constexpr std::uint32_t kVocab = 203;
constexpr std::uint32_t kRows = 3;

const kernels::KernelTable& kernels_ref() {
  return kernels::kernel_table(kernels::Isa::kRef);
}

// The table of one rank and its rows of logits.
struct Case {
  std::vector<float> logits;  // [kRows][kVocab]
  std::vector<step::SamplingNumbers> sampling;
  std::vector<TokenId> history;
  std::uint32_t prompt = 4;
  std::vector<std::pair<TokenId, float>> bias;
  std::vector<TokenId> masked;
};

class Shards {
 public:
  Shards(const Case& given,
         std::uint32_t ranks,
         std::uint32_t threads = 1,
         std::uint32_t list_tokens = kVocab,
         const kernels::KernelTable& kernels = kernels_ref())
      : case_(given), ranks_(ranks), threads_(threads), kernels_(kernels) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      parts_.push_back(std::make_unique<Part>(given, rank, ranks, threads, list_tokens));
    }
  }

  std::vector<SampledToken> run() {
    std::vector<PeakRecord> peaks(ranks_ * kRows);
    for (auto& part : parts_) {
      for_tiles(*part, kRows, [&](std::uint32_t tile) {
        part->sampler->shape(kernels_,
                             part->raw.data(),
                             part->shaped.data(),
                             peaks.data() + part->rank * kRows,
                             tile,
                             tile % threads_);
      });
    }
    for (auto& part : parts_) {
      for (std::uint32_t row = 0; row < kRows; ++row) {
        part->sampler->peak(peaks.data(), row);
      }
    }
    for (const Selection selection : {Selection::kTopK, Selection::kTopP}) {
      for (std::uint32_t pass = 0; pass < kSelectionPasses; ++pass) {
        select(selection, pass);
      }
    }
    return draw();
  }

 private:
  struct Part {
    Part(const Case& given,
         std::uint32_t index,
         std::uint32_t ranks,
         std::uint32_t threads,
         std::uint32_t list_tokens)
        : rank(index) {
      std::vector<SampleRow> rows;
      for (std::uint32_t row = 0; row < kRows; ++row) {
        step::SequenceAttach spec;
        spec.slot = row;
        spec.sequence = row + 1;
        spec.tokens = given.history;
        spec.prompt_tokens = given.prompt;
        spec.choice = row;
        static_cast<step::SamplingNumbers&>(spec.sampling) = given.sampling[row];
        spec.sampling.logit_bias = given.bias;
        spec.masked_until_min_tokens = given.masked;
        EXPECT_TRUE(table->attach(spec));
        rows.push_back({row, row, static_cast<std::uint32_t>(given.history.size())});
      }
      Sampler::Options options;
      options.tokens = run_of(kVocab, rank, ranks);
      options.rank = rank;
      options.ranks = ranks;
      options.rows_max = kRows;
      options.threads = threads;
      options.part_tokens_least = 16;
      options.list_tokens_most = list_tokens;
      options.logits_stride = options.tokens.count;
      for (std::uint32_t row = 0; row < kRows; ++row) {
        const auto first = given.logits.begin() + row * kVocab + options.tokens.first;
        raw.insert(raw.end(), first, first + options.tokens.count);
      }
      shaped.resize(raw.size());
      sampler = std::make_unique<Sampler>(options, *table);
      sampler->begin(rows);
    }

    std::uint32_t rank;
    testing::TableMemory table{{64, kRows, 64, 8}, kVocab};
    std::vector<float> raw;
    std::vector<float> shaped;
    std::unique_ptr<Sampler> sampler;
  };

  // In an order that is not that of the tiles.
  static void for_tiles(const Part& part,
                        std::uint32_t rows,
                        const std::function<void(std::uint32_t)>& run) {
    const std::uint32_t tiles = part.sampler->tiles(rows);
    for (std::uint32_t i = 0; i < tiles; ++i) {
      run((i + tiles / 2) % tiles);
    }
  }

  void select(Selection selection, std::uint32_t pass) {
    const std::uint32_t rows = parts_[0]->sampler->selecting(selection);
    std::vector<kernels::VocabHistogram> all(ranks_ * rows);
    for (auto& part : parts_) {
      for_tiles(*part, rows, [&](std::uint32_t tile) {
        part->sampler->count(kernels_,
                             {part->raw.data(), part->shaped.data()},
                             {selection, pass},
                             all.data() + part->rank * rows,
                             tile);
      });
    }
    for (std::uint32_t index = 0; index < rows; ++index) {
      for (auto& part : parts_) {
        part->sampler->select(
            {part->raw.data(), part->shaped.data()}, {selection, pass}, all.data(), index);
      }
    }
  }

  std::vector<SampledToken> draw() {
    const std::uint32_t rows = parts_[0]->sampler->drawn();
    std::vector<DrawRecord> all(ranks_ * rows);
    for (auto& part : parts_) {
      for_tiles(*part, rows, [&](std::uint32_t tile) {
        part->sampler->draw(kernels_,
                            {part->raw.data(), part->shaped.data()},
                            all.data() + part->rank * rows,
                            tile);
      });
    }
    std::vector<SampledToken> expected;
    for (auto& part : parts_) {
      std::vector<SampledToken> results(kRows);
      for (std::uint32_t row = 0; row < kRows; ++row) {
        part->sampler->finish(all.data(), results.data(), row);
      }
      if (part->rank == 0) {
        expected = results;
      }
      EXPECT_EQ(results, expected) << "rank " << part->rank;
    }
    return expected;
  }

  const Case& case_;
  std::uint32_t ranks_;
  std::uint32_t threads_;
  const kernels::KernelTable& kernels_;
  std::vector<std::unique_ptr<Part>> parts_;
};

std::int64_t mass_of(float logit, float maximum) {
  return kernels_ref().vocab_mass({&logit, 1, 0}, {}, maximum);
}

struct Shaped {
  TokenId id = 0;
  float logit = 0.0F;
};

std::vector<Shaped> shaped_logits(const Case& given, std::uint32_t row) {
  const step::SamplingNumbers& s = given.sampling[row];
  std::map<TokenId, float> bias(given.bias.begin(), given.bias.end());
  std::vector<Shaped> result;
  for (TokenId id = 0; id < static_cast<TokenId>(kVocab); ++id) {
    const auto begin = given.history.begin();
    const bool seen = std::find(begin, given.history.end(), id) != given.history.end();
    const auto produced = std::count(begin + given.prompt, given.history.end(), id);
    float logit =
        kernels::penalised_logit(given.logits[row * kVocab + static_cast<std::uint32_t>(id)],
                                 {s.repetition_penalty, s.presence_penalty, s.frequency_penalty},
                                 seen,
                                 static_cast<std::uint32_t>(produced),
                                 bias.count(id) != 0 ? bias[id] : 0.0F);
    const bool is_masked =
        given.history.size() - given.prompt < s.min_tokens &&
        std::find(given.masked.begin(), given.masked.end(), id) != given.masked.end();
    if (is_masked) {
      logit = -std::numeric_limits<float>::infinity();
    }
    if (s.temperature >= step::kGreedyTemperature) {
      logit = logit / s.temperature;
    }
    result.push_back({id, logit});
  }
  std::stable_sort(result.begin(), result.end(), [](const Shaped& a, const Shaped& b) {
    return a.logit > b.logit;
  });
  return result;
}

// By the definition: sort, cut, cut, cut, add noise, take the largest.
TokenId reference_token(const Case& given, std::uint32_t row) {
  const step::SamplingNumbers& s = given.sampling[row];
  std::vector<Shaped> kept = shaped_logits(given, row);
  if (s.temperature < step::kGreedyTemperature) {
    return kept[0].id;
  }
  const float maximum = kept[0].logit;
  if (s.top_k > 0 && static_cast<std::size_t>(s.top_k) < kept.size()) {
    kept.resize(static_cast<std::size_t>(s.top_k));
  }
  if (s.top_p < 1.0F) {
    std::int64_t total = 0;
    for (const Shaped& token : kept) {
      total += mass_of(token.logit, maximum);
    }
    const std::int64_t target = kernels::mass_target(s.top_p, total);
    std::int64_t sum = 0;
    std::size_t count = 0;
    while (sum < target) {
      sum += mass_of(kept[count++].logit, maximum);
    }
    kept.resize(count);
  }
  if (s.min_p > 0.0F) {
    const float floor = kernels::min_p_floor(maximum, s.min_p);
    std::erase_if(kept, [&](const Shaped& token) { return token.logit < floor; });
  }
  kernels::VocabPeak best{-std::numeric_limits<float>::infinity(), -1, true};
  std::sort(kept.begin(), kept.end(), [](const Shaped& a, const Shaped& b) { return a.id < b.id; });
  for (const Shaped& token : kept) {
    kernels::VocabPeak peak;
    kernels_ref().gumbel_max({&token.logit, 1, token.id},
                             {},
                             {s.seed, row, static_cast<std::uint32_t>(given.history.size())},
                             &peak);
    if (peak.value > best.value) {
      best = peak;
    }
  }
  return best.id;
}

double reference_logprob(const Case& given, std::uint32_t row, TokenId token) {
  const float* logits = given.logits.data() + row * kVocab;
  const double maximum = static_cast<double>(*std::max_element(logits, logits + kVocab));
  double sum = 0;
  for (std::uint32_t i = 0; i < kVocab; ++i) {
    sum += std::exp(static_cast<double>(logits[i]) - maximum);
  }
  return static_cast<double>(logits[token]) - maximum - std::log(sum);
}

Case random_case(std::mt19937_64& random, bool with_ties) {
  Case result;
  std::normal_distribution<float> normal(0.0F, 3.0F);
  const auto pick = [&](std::initializer_list<float> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  for (std::uint32_t row = 0; row < kRows; ++row) {
    // From one where every token may win to those where sums are rounded to the larger one.
    const float spread = pick({1.0F, 1.0F, 4.0F, 1e3F, 1e7F, 3e8F, 1e30F});
    for (std::uint32_t i = 0; i < kVocab; ++i) {
      const float logit = normal(random) * spread;
      result.logits.push_back(with_ties ? std::round(logit) : logit);
    }
  }
  for (std::uint32_t row = 0; row < kRows; ++row) {
    step::SamplingNumbers s;
    s.temperature = pick({0.0F, 0.5F, 1.0F, 1.0F, 1.7F});
    s.top_k = static_cast<std::int32_t>(pick({0, 1, 2, 7, 50, 202, 203, 1000}));
    s.top_p = pick({1.0F, 1.0F, 0.95F, 0.5F, 0.01F, 0.9999F});
    s.min_p = pick({0.0F, 0.0F, 0.02F, 0.3F, 1.0F});
    s.repetition_penalty = pick({1.0F, 1.0F, 1.5F, 0.7F});
    s.presence_penalty = pick({0.0F, 0.0F, 1.0F, -1.0F});
    s.frequency_penalty = pick({0.0F, 0.0F, 0.5F, -0.5F});
    s.min_tokens = static_cast<std::uint32_t>(pick({0, 0, 100}));
    s.top_logprobs = static_cast<std::int32_t>(pick({-1, 0, 5, 20}));
    s.seed = random();
    result.sampling.push_back(s);
  }
  for (int i = 0; i < 12; ++i) {
    result.history.push_back(static_cast<TokenId>(random() % kVocab));
  }
  result.history[7] = result.history[1];
  result.history[9] = result.history[8];
  if (random() % 2 == 0) {
    result.bias = {{result.history[8], 2.0F}, {200, -5.0F}};
    std::sort(result.bias.begin(), result.bias.end());
    result.bias.erase(std::unique(result.bias.begin(),
                                  result.bias.end(),
                                  [](auto& a, auto& b) { return a.first == b.first; }),
                      result.bias.end());
  }
  result.masked = {0, 100, 202};
  return result;
}

void expect_close(float logprob, double expected) {
  EXPECT_NEAR(static_cast<double>(logprob), expected, std::max(1e-5, 1e-6 * std::abs(expected)));
}

void expect_reference(const Case& given, const std::vector<SampledToken>& results) {
  for (std::uint32_t row = 0; row < kRows; ++row) {
    const SampledToken& result = results[row];
    const step::SamplingNumbers& s = given.sampling[row];
    EXPECT_EQ(result.token, reference_token(given, row))
        << "row " << row << " temperature " << s.temperature << " top_k " << s.top_k << " top_p "
        << s.top_p << " min_p " << s.min_p;
    if (s.top_logprobs < 0) {
      EXPECT_EQ(result.logprob, 0.0F);
      continue;
    }
    expect_close(result.logprob, reference_logprob(given, row, result.token));
    ASSERT_EQ(result.top_count, static_cast<std::uint32_t>(s.top_logprobs));
    std::vector<std::pair<float, TokenId>> order;
    for (std::uint32_t i = 0; i < kVocab; ++i) {
      order.push_back({-given.logits[row * kVocab + i], static_cast<TokenId>(i)});
    }
    std::sort(order.begin(), order.end());
    for (std::uint32_t i = 0; i < result.top_count; ++i) {
      EXPECT_EQ(result.top[i].token, order[i].second);
      expect_close(result.top[i].logprob, reference_logprob(given, row, order[i].second));
    }
  }
}

TEST(Sampler, FollowsTheDefinitionOverAnyNumberOfShards) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    const Case given = random_case(random, round % 2 == 1);
    const auto alone = Shards(given, 1).run();
    expect_reference(given, alone);
    for (const std::uint32_t ranks : {2U, 3U, 4U, 7U}) {
      EXPECT_EQ(Shards(given, ranks).run(), alone) << ranks << " shards";
    }
    for (const std::uint32_t threads : {4U, 7U, 40U}) {
      const std::uint32_t ranks = 1 + static_cast<std::uint32_t>(round) % 3;
      EXPECT_EQ(Shards(given, ranks, threads).run(), alone)
          << ranks << " shards of " << threads << " threads";
    }
  }
}

// Rows of one kind, which differ in how many tokens a list must hold.
Case special_case(std::mt19937_64& random, int kind) {
  Case result = random_case(random, kind % 2 == 1);
  for (std::uint32_t i = 0; i < kRows * kVocab; ++i) {
    float& logit = result.logits[i];
    const float uniform = static_cast<float>(random() % 4096) / 4096.0F;
    switch (kind) {
      case 0:  // all equal
        logit = -3.5F;
        break;
      case 1:  // ties at few values, zeros of both signs among them
        logit = random() % 3 == 0 ? -0.0F : static_cast<float>(random() % 3);
        break;
      case 2:  // most are banned
        logit = random() % 10 != 0 ? -std::numeric_limits<float>::infinity() : uniform;
        break;
      case 3:  // as a trained model's
        logit = random() % 50 == 0 ? 20.0F + 5.0F * uniform : 8.0F * uniform - 4.0F;
        break;
      case 4:  // around the floors of top_p and of masses
        logit = random() % 40 == 0 ? 0.0F : -5.0F - 18.0F * uniform;
        break;
      default:  // the ends of the numbers, negative ones alone
        logit = -1e38F - 2e38F * uniform;
    }
  }
  for (step::SamplingNumbers& sampling : result.sampling) {
    sampling.top_p = random() % 4 == 0 ? 1.0F : sampling.top_p < 1.0F ? sampling.top_p : 0.95F;
    sampling.top_k = random() % 2 == 0 ? 0 : sampling.top_k;
    sampling.temperature = random() % 8 == 0 ? 0.7F : 1.0F;
  }
  return result;
}

TEST(Sampler, IsTheSameWhereTheCandidatesDoNotFitTheirLists) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 240; ++round) {
    SCOPED_TRACE(round);
    Case given = special_case(random, round % 6);
    for (step::SamplingNumbers& sampling : given.sampling) {
      sampling.top_logprobs = -1;
    }
    const auto scanned = Shards(given, 1, 1, 0).run();
    expect_reference(given, scanned);
    for (const kernels::Isa isa : kernels::available_isas()) {
      for (const std::uint32_t tokens : {1U, 3U, 17U, 60U, kVocab - 1, kVocab}) {
        const auto ranks = static_cast<std::uint32_t>(1 + random() % 4);
        const auto threads = static_cast<std::uint32_t>(1 + random() % 9);
        EXPECT_EQ(Shards(given, ranks, threads, tokens, kernels::kernel_table(isa)).run(), scanned)
            << kernels::isa_name(isa) << ", lists of " << tokens << ", " << ranks << " shards of "
            << threads << " threads";
      }
    }
  }
}

TEST(RowParts, CoverEachRowOnce) {
  for (const std::uint32_t threads : {1U, 2U, 3U, 8U, 31U, 64U, 200U}) {
    for (const std::uint32_t count : {1U, 16U, 17U, 500U, 4096U, 151936U}) {
      const RowParts divided({1000, count}, threads, 64, 300);
      for (const std::uint32_t rows : {1U, 2U, 3U, 7U, 63U, 300U}) {
        const std::uint32_t parts = divided.parts(rows);
        EXPECT_TRUE(rows < threads || parts == 1);
        EXPECT_TRUE(parts == 1 || rows * parts < 2 * threads) << "records of parts";
        std::uint32_t at = 0;
        for (std::uint32_t tile = 0; tile < rows * parts; ++tile) {
          const RowPart part = divided.part(rows, tile);
          EXPECT_EQ(part.row, tile / parts);
          at = tile % parts == 0 ? 1000 : at;
          EXPECT_EQ(part.tokens.first, at);
          EXPECT_GT(part.tokens.count, 0U);
          at = part.tokens.end();
          EXPECT_TRUE(tile % parts + 1 < parts || at == 1000 + count);
        }
      }
    }
  }
}

TEST(Sampler, DrawsWithTheFrequenciesOfTheDistribution) {
  Case given;
  given.logits.assign(kRows * kVocab, -20.0F);
  const std::array<double, 4> share = {0.5, 0.25, 0.15, 0.1};
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::uint32_t i = 0; i < share.size(); ++i) {
      given.logits[row * kVocab + i * 60] = static_cast<float>(std::log(share[i]));
    }
  }
  given.sampling.resize(kRows);
  given.history = {1, 2, 3, 4};
  std::map<TokenId, int> counts;
  constexpr int kDraws = 4000;
  for (int draw = 0; draw < kDraws; ++draw) {
    for (std::uint32_t row = 0; row < kRows; ++row) {
      given.sampling[row].seed = static_cast<std::uint64_t>(draw) * 7919;
    }
    for (const SampledToken& token : Shards(given, 2).run()) {
      ++counts[token.token];
    }
  }
  const double total = kDraws * kRows;
  for (std::uint32_t i = 0; i < share.size(); ++i) {
    const double sigma = std::sqrt(total * share[i] * (1 - share[i]));
    EXPECT_NEAR(counts[static_cast<TokenId>(i * 60)], total * share[i], 4 * sigma) << i;
  }
}

}  // namespace
}  // namespace phalanx::model
