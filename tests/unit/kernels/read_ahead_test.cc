// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/read_ahead.h"

#include <cstddef>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::kernels {
namespace {

constexpr std::size_t kLine = 64;

// Addresses alone: nothing is read.
const std::byte* at(std::size_t line) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<const std::byte*>(0x10000 + line * kLine);
}

std::size_t line_of(const std::byte* address) {
  return static_cast<std::size_t>(address - at(0)) / kLine;
}

class ReadAheadTest : public ::testing::Test {
 protected:
  // All lines that are taken with so many of weights, `step` of them at a time.
  std::vector<std::size_t> take(std::size_t weights, std::size_t step) {
    std::vector<std::size_t> lines;
    for (std::size_t passed = 0; passed < weights; passed += step) {
      const ReadAhead::Lines taken = ahead_->take(step, step);
      EXPECT_LE(taken.count, step);
      for (std::size_t i = 0; i < taken.count; ++i) {
        lines.push_back(line_of(taken.first) + i);
      }
    }
    return lines;
  }

  // A round in which so many lines of weights are multiplied.
  void run_round(const void* round, std::size_t weights) {
    ahead_->begin(round);
    ahead_->add(at(0), kLine);
    take(weights, weights);
  }

  std::unique_ptr<ReadAhead> ahead_ = std::make_unique<ReadAhead>();
  int rounds_[4] = {};
};

TEST_F(ReadAheadTest, SpreadsItsLinesOverARoundLikeTheLast) {
  run_round(&rounds_[0], 1000);
  ahead_->begin(&rounds_[1]);
  ahead_->add(at(10), 150 * kLine);
  ahead_->add(at(500), 50 * kLine);
  const std::vector<std::size_t> half = take(500, 10);
  EXPECT_NEAR(static_cast<double>(half.size()), 100, 2);
  EXPECT_EQ(half.front(), 10U);
  std::vector<std::size_t> all = half;
  for (const std::size_t line : take(500, 10)) {
    all.push_back(line);
  }
  ASSERT_EQ(all.size(), 200U);
  EXPECT_EQ(all[149], 159U);
  EXPECT_EQ(all[150], 500U);
  EXPECT_EQ(all.back(), 549U);
  EXPECT_EQ(ahead_->take(10, 10).count, 0U);
}

TEST_F(ReadAheadTest, TakesAsMuchAsItMayWhereItKnowsNoRound) {
  ahead_->begin(&rounds_[0]);
  ahead_->add(at(0), 100 * kLine);
  EXPECT_EQ(ahead_->take(30, 30).count, 30U);
  EXPECT_EQ(ahead_->take(90, 30).count, 30U);
  EXPECT_EQ(ahead_->take(300, 300).count, 40U);
  EXPECT_EQ(ahead_->take(300, 300).count, 0U);
}

TEST_F(ReadAheadTest, TakesWhatIsLeftInARoundThatIsLongerThanTheLast) {
  run_round(&rounds_[0], 10);
  ahead_->begin(&rounds_[1]);
  ahead_->add(at(0), 100 * kLine);
  EXPECT_EQ(take(200, 10).size(), 100U);
}

TEST_F(ReadAheadTest, ForgetsWhatIsLeftOfAnotherRoundOnly) {
  ahead_->begin(&rounds_[0]);
  ahead_->add(at(0), 4 * kLine);
  ahead_->begin(&rounds_[0]);
  ahead_->add(at(8), 4 * kLine);
  EXPECT_EQ(take(3, 1), (std::vector<std::size_t>{0, 1, 2}));
  ahead_->begin(&rounds_[1]);
  EXPECT_EQ(ahead_->take(10, 10).count, 0U);
}

TEST_F(ReadAheadTest, LearnsOnlyOfRoundsThatListAndMultiply) {
  run_round(&rounds_[0], 100);
  ahead_->begin(&rounds_[1]);  // lists nothing: the head of a model
  take(10000, 100);
  ahead_->begin(&rounds_[2]);  // multiplies nothing: a prompt
  ahead_->add(at(0), kLine);
  ahead_->begin(&rounds_[3]);
  ahead_->add(at(0), 50 * kLine);
  EXPECT_EQ(ahead_->take(20, 20).count, 10U);
}

TEST_F(ReadAheadTest, HasRoomForSoManyLinesAndRuns) {
  ahead_->begin(&rounds_[0]);
  ahead_->add(at(0), 2 * ReadAhead::kMaxLines * kLine);
  ahead_->add(at(0), kLine);
  EXPECT_EQ(ahead_->take(1, 3 * ReadAhead::kMaxLines).count, ReadAhead::kMaxLines);
  EXPECT_EQ(ahead_->take(1, 3 * ReadAhead::kMaxLines).count, 0U);

  ahead_->begin(&rounds_[1]);
  for (std::size_t run = 0; run < 2 * ReadAhead::kMaxRuns; ++run) {
    ahead_->add(at(2 * run), kLine);
  }
  const std::vector<std::size_t> lines = take(1000, 1);
  EXPECT_EQ(lines.size(), ReadAhead::kMaxRuns);
  EXPECT_EQ(lines.back(), 2 * (ReadAhead::kMaxRuns - 1));
}

TEST_F(ReadAheadTest, JoinsRunsThatFollowOneAnother) {
  ahead_->begin(&rounds_[0]);
  for (std::size_t run = 0; run < 2 * ReadAhead::kMaxRuns; ++run) {
    ahead_->add(at(run), kLine - 1);
  }
  EXPECT_EQ(ahead_->take(1000, 1000).count, 2 * ReadAhead::kMaxRuns);
  ahead_->add(at(2 * ReadAhead::kMaxRuns), kLine);
  EXPECT_EQ(take(2, 1), (std::vector<std::size_t>{2 * ReadAhead::kMaxRuns}));
}

}  // namespace
}  // namespace phalanx::kernels
