// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/table_digest.h"

#include <functional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::step {
namespace {

SequenceAttach sequence(std::vector<TokenId> tokens, std::uint32_t prompt) {
  SequenceAttach attach;
  attach.slot = 1;
  attach.sequence = 5;
  attach.tokens = std::move(tokens);
  attach.prompt_tokens = prompt;
  attach.blocks = {4, 2};
  return attach;
}

std::uint64_t digest_of(const SequenceAttach& attach) {
  TableDigest digest(4);
  digest.attach(attach);
  return digest.hash({});
}

TEST(TableDigest, IsTheSameHoweverTheStateCameAbout) {
  TableDigest walked(4);
  SequenceAttach begun = sequence({1, 2, 3}, 3);
  begun.blocks = {4};
  walked.attach(begun);
  walked.append(1, 8);
  walked.extend(1, std::vector<std::uint32_t>{2});
  walked.append(1, 9);
  EXPECT_EQ(walked.hash({}), digest_of(sequence({1, 2, 3, 8, 9}, 3)));
  walked.detach(1);
  EXPECT_EQ(walked.hash({}), TableDigest(4).hash({}));
}

TEST(TableDigest, DiffersWithEverythingThatMatters) {
  using Change = std::function<void(SequenceAttach&)>;
  const std::vector<Change> changes = {
      [](SequenceAttach&) {},
      [](SequenceAttach& s) { s.slot = 2; },
      [](SequenceAttach& s) { s.sequence = 6; },
      [](SequenceAttach& s) { s.tokens[1] = 4; },
      [](SequenceAttach& s) { std::swap(s.tokens[0], s.tokens[1]); },
      [](SequenceAttach& s) { s.tokens.push_back(0); },
      [](SequenceAttach& s) { s.prompt_tokens = 2; },
      [](SequenceAttach& s) { s.choice = 1; },
      [](SequenceAttach& s) { s.sampling.seed = 1; },
      [](SequenceAttach& s) { s.sampling.temperature = 0.5F; },
      [](SequenceAttach& s) {
        s.sampling.logit_bias = {{1, 2.0F}};
      },
      [](SequenceAttach& s) { s.masked_until_min_tokens = {7}; },
      [](SequenceAttach& s) { s.blocks[1] = 3; },
      [](SequenceAttach& s) { std::swap(s.blocks[0], s.blocks[1]); },
      [](SequenceAttach& s) { s.blocks.pop_back(); },
      [](SequenceAttach& s) { s.blocks.push_back(0); },
  };
  std::set<std::uint64_t> seen;
  for (const Change& change : changes) {
    SequenceAttach attach = sequence({1, 2, 3}, 3);
    change(attach);
    EXPECT_TRUE(seen.insert(digest_of(attach)).second) << "change " << seen.size();
  }
}

TEST(TableDigest, CoversThePositionsOfTheStep) {
  TableDigest digest(4);
  StepItem item;
  std::set<std::uint64_t> seen{digest.hash({})};
  const auto differs = [&](const StepItem& changed) {
    return seen.insert(digest.hash(std::vector{changed})).second;
  };
  EXPECT_TRUE(differs(item));
  item.start = 32;
  EXPECT_TRUE(differs(item));
  item.count = 1;
  EXPECT_TRUE(differs(item));
  item.sample = true;
  EXPECT_TRUE(differs(item));
}

}  // namespace
}  // namespace phalanx::step
