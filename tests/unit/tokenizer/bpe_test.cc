// SPDX-License-Identifier: Apache-2.0
#include "bpe.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::tokenizer {
namespace {

using Texts = std::vector<std::string>;

// A vocabulary and its merges, made of pairs of tokens; single bytes come by themselves.
class World {
 public:
  explicit World(const std::vector<std::pair<std::string, std::string>>& merges,
                 Bpe::Options options = {}) {
    for (int byte = 0; byte < 256; ++byte) {
      add(std::string(1, static_cast<char>(byte)));
    }
    std::vector<Bpe::Merge> linked;
    for (const auto& [left, right] : merges) {
      add(left + right);
      const auto rank = static_cast<std::uint32_t>(linked.size());
      linked.push_back({ids_.at(left), ids_.at(right), ids_.at(left + right), rank});
      ranks_[{ids_.at(left), ids_.at(right)}] = linked.back();
    }
    bpe_ = *Bpe::create(vocabulary_, linked, options);
  }

  [[nodiscard]] std::vector<TokenId> encode(std::string_view piece) const {
    std::vector<TokenId> ids;
    bpe_->encode_piece(piece, ids);
    return ids;
  }

  // As the definition reads: merge the pair of lowest rank, the leftmost of equals, until there is
  // none.
  [[nodiscard]] std::vector<TokenId> encode_by_definition(std::string_view piece) const {
    std::vector<TokenId> ids;
    for (const char byte : piece) {
      ids.push_back(ids_.at(std::string(1, byte)));
    }
    while (true) {
      auto best = ranks_.end();
      std::size_t place = 0;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = ranks_.find({ids[i], ids[i + 1]});
        if (found != ranks_.end() &&
            (best == ranks_.end() || found->second.rank < best->second.rank)) {
          best = found;
          place = i;
        }
      }
      if (best == ranks_.end()) {
        return ids;
      }
      ids[place] = best->second.merged;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
  }

  // Steps of merging that `piece` takes.
  [[nodiscard]] std::uint64_t work(std::string_view piece) const {
    const std::uint64_t before = Bpe::work_of_this_thread();
    static_cast<void>(encode(piece));
    return Bpe::work_of_this_thread() - before;
  }

 private:
  void add(const std::string& bytes) {
    if (!ids_.contains(bytes)) {
      const auto id = static_cast<TokenId>(ids_.size());
      ASSERT_TRUE(vocabulary_.insert(id, bytes, true).has_value());
      ids_.emplace(bytes, id);
    }
  }

  Vocabulary vocabulary_;
  std::map<std::string, TokenId> ids_;
  std::map<std::pair<TokenId, TokenId>, Bpe::Merge> ranks_;
  std::unique_ptr<Bpe> bpe_;
};

// Merges in a random order, so that long tokens may come before what they are made of.
World random_world(std::mt19937& random, std::string_view letters, std::size_t merges) {
  Texts known;
  for (const char letter : letters) {
    known.emplace_back(1, letter);
  }
  std::vector<std::pair<std::string, std::string>> pairs;
  while (pairs.size() < merges) {
    const std::string left = known[random() % known.size()];
    const std::string right = known[random() % known.size()];
    if (left.size() + right.size() <= 160) {
      pairs.emplace_back(left, right);
      known.push_back(left + right);
    }
  }
  // Names of parts must exist before the merge that uses them, ranks need not follow.
  return World(pairs);
}

std::string random_text(std::mt19937& random, std::string_view letters, std::size_t length) {
  std::string text;
  while (text.size() < length) {
    // Runs now and then: there the right end of a piece decides about its left end.
    text.append(random() % 8 == 0 ? 1 + random() % 40 : 1, letters[random() % letters.size()]);
  }
  text.resize(length);
  return text;
}

TEST(Bpe, MergesPiecesOfAnyLengthAsTheDefinitionSays) {
  std::mt19937 random(11);
  for (int world_number = 0; world_number < 40; ++world_number) {
    const std::string_view letters = std::string_view("abcdefgh").substr(0, 1 + random() % 8);
    const World world = random_world(random, letters, 2 + random() % 60);
    for (int i = 0; i < 20; ++i) {
      // On both sides of each change of algorithm: whole, in windows, windows longer than a scan.
      const std::string text = random_text(random, letters, 1 + random() % (i % 8 == 0 ? 700 : 90));
      EXPECT_EQ(world.encode(text), world.encode_by_definition(text))
          << "world " << world_number << ": " << text;
    }
  }
}

TEST(Bpe, MergesRunsWhoseTokensAreLongerThanAWindow) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (std::size_t size = 1; size <= 512; size *= 2) {
    merges.emplace_back(std::string(size, 'a'), std::string(size, 'a'));
  }
  const World world(merges);
  for (const std::size_t size : {63U, 127U, 128U, 129U, 1023U, 1025U, 3000U, 5121U}) {
    const std::string run(size, 'a');
    EXPECT_EQ(world.encode(run), world.encode_by_definition(run)) << size;
    EXPECT_EQ(world.encode("b" + run + "b"), world.encode_by_definition("b" + run + "b")) << size;
  }
}

// Four times as long a piece may take little more than four times the steps.
TEST(Bpe, WorksInProportionToTheLengthOfHostilePieces) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (std::size_t size = 1; size <= 64; size *= 2) {
    merges.emplace_back(std::string(size, 'a'), std::string(size, 'a'));
  }
  // A token that begins like the run but ends otherwise, and pairs that chase each other.
  merges.emplace_back("a", "b");
  merges.emplace_back("b", "a");
  merges.emplace_back("ab", "ab");
  merges.emplace_back("c", "d");
  merges.emplace_back("d", "c");
  merges.emplace_back("dc", "dc");
  const World world(merges);
  std::mt19937 random(5);
  const std::vector<std::pair<const char*, std::string>> units{
      {"run", "a"},
      {"alternation", "ab"},
      {"pairs that chase each other", "cd"},
      {"almost a run", std::string(127, 'a') + "b"},
      {"random", random_text(random, "abcd", 997)},
  };
  constexpr std::size_t kLength = 1 << 14;
  for (const auto& [name, unit] : units) {
    SCOPED_TRACE(name);
    std::string text;
    while (text.size() < 4 * kLength) {
      text += unit;
    }
    const std::uint64_t once = world.work(std::string_view(text).substr(0, kLength));
    const std::uint64_t four_times = world.work(std::string_view(text).substr(0, 4 * kLength));
    EXPECT_LE(four_times, once * 9 / 2);
    EXPECT_LE(once, kLength * 400);
    EXPECT_GE(once, kLength / 2);
  }
}

TEST(Bpe, LeavesOutBytesWithoutATokenOrNamesThemUnknown) {
  Vocabulary vocabulary;
  ASSERT_TRUE(vocabulary.insert(0, "a", true) && vocabulary.insert(1, "b", true) &&
              vocabulary.insert(2, "ab", true) && vocabulary.insert(3, "?", true));
  const std::vector<Bpe::Merge> merges{{0, 1, 2, 0}};
  const auto encode = [&](Bpe::Options options, std::string_view text) {
    const auto bpe = *Bpe::create(vocabulary, merges, options);
    std::vector<TokenId> ids;
    bpe->encode_piece(text, ids);
    return ids;
  };
  EXPECT_EQ(encode({},
                   "a\x04"
                   "b\x04"),
            (std::vector<TokenId>{2}));
  EXPECT_EQ(encode({}, "\x04"), (std::vector<TokenId>{}));
  EXPECT_EQ(encode({.unknown = 3}, "a\x04\x05z"), (std::vector<TokenId>{0, 3, 3, 3}));
  EXPECT_EQ(encode({.unknown = 3, .fuse_unknown = true}, "a\x04\x05zb"),
            (std::vector<TokenId>{0, 3, 1}));
}

}  // namespace
}  // namespace phalanx::tokenizer
