// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/block_pool.h"

#include <set>

#include <gtest/gtest.h>

#include "phalanx/engine/sequence.h"

namespace phalanx::engine {
namespace {

BlockId acquire(BlockPool& pool) {
  const BlockId block = pool.peek(1).front();
  pool.take(block);
  return block;
}

TEST(BlockPool, HandsOutEveryBlockOnce) {
  BlockPool pool(5);
  std::set<BlockId> seen;
  while (pool.free() > 0) {
    const BlockId expected = pool.peek(1).front();
    const BlockId block = acquire(pool);
    EXPECT_EQ(block, expected);
    EXPECT_EQ(pool.references(block), 1U);
    EXPECT_TRUE(seen.insert(block).second);
  }
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_EQ(pool.total(), 5U);
}

TEST(BlockPool, PeeksTheOrderOfComingAcquisitions) {
  BlockPool pool(4);
  pool.release(acquire(pool));
  const std::vector<BlockId> expected = pool.peek(4);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(acquire(pool), expected[i]);
  }
}

TEST(BlockPool, GivesUpWhatIsKeptOnlyWhereNothingElseIsFreeAndTheOldestFirst) {
  BlockPool pool(4);
  std::vector<BlockId> blocks;
  for (int i = 0; i < 3; ++i) {
    blocks.push_back(acquire(pool));
  }
  pool.release(blocks[1], true);
  pool.release(blocks[0], true);
  pool.release(blocks[2]);
  EXPECT_EQ(pool.free(), 4U);
  EXPECT_EQ(pool.kept(), 2U);
  EXPECT_EQ(pool.peek(2), (std::vector<BlockId>{blocks[2], BlockId(3)}));
  EXPECT_EQ(pool.peek(4), (std::vector<BlockId>{blocks[2], blocks[1], blocks[0], BlockId(3)}));
  EXPECT_EQ(pool.peek(3, {blocks[1]}), (std::vector<BlockId>{blocks[2], blocks[0], BlockId(3)}));
  pool.give_up(blocks[0]);
  pool.share(blocks[1]);
  EXPECT_EQ(pool.references(blocks[1]), 1U);
  EXPECT_EQ(pool.peek(3), (std::vector<BlockId>{blocks[2], blocks[0], BlockId(3)}));
  EXPECT_EQ(acquire(pool), blocks[2]);
  EXPECT_EQ(acquire(pool), blocks[0]);
  EXPECT_EQ(acquire(pool), BlockId(3));
  EXPECT_EQ(pool.free(), 0U);
}

TEST(BlockPool, ForgetsWhatIsKeptWithTheRest) {
  BlockPool pool(3);
  pool.release(acquire(pool), true);
  pool.untouch();
  EXPECT_EQ(pool.kept(), 0U);
  EXPECT_EQ(pool.free(), 3U);
  EXPECT_EQ(pool.peek(1).front(), BlockId(0));
}

TEST(BlockPoolDeathTest, EndsTheProcessOnTakingWhatIsKept) {
  BlockPool pool(1);
  pool.release(acquire(pool), true);
  EXPECT_DEATH(acquire(pool), "or kept");
}

TEST(BlockPoolDeathTest, EndsTheProcessOnSharingWhatIsNotKept) {
  BlockPool pool(1);
  const BlockId block = acquire(pool);
  pool.release(block);
  EXPECT_DEATH(pool.share(block), "not kept");
}

TEST(BlockPool, KeepsASharedBlockUntilItsLastReaderLeaves) {
  BlockPool pool(2);
  const BlockId block = acquire(pool);
  pool.share(block);
  pool.release(block);
  EXPECT_EQ(pool.references(block), 1U);
  EXPECT_EQ(pool.free(), 1U);
  pool.release(block);
  EXPECT_EQ(pool.free(), 2U);
}

TEST(BlockPool, ReusesTheWarmestBlockFirst) {
  BlockPool pool(8);
  const BlockId first = acquire(pool);
  const BlockId second = acquire(pool);
  pool.release(first);
  pool.release(second);
  EXPECT_EQ(acquire(pool), second);
}

TEST(BlockPool, TouchesLowBlocksFirstAndNoMoreThanAreInUse) {
  BlockPool pool(100);
  const BlockId a = acquire(pool);
  const BlockId b = acquire(pool);
  EXPECT_EQ(a, BlockId(0));
  EXPECT_EQ(b, BlockId(1));
  for (int i = 0; i < 50; ++i) {
    pool.release(acquire(pool));
  }
  EXPECT_EQ(pool.touched(), 3U);
  pool.release(a);
  pool.release(b);
  pool.untouch();
  EXPECT_EQ(pool.touched(), 0U);
  EXPECT_EQ(pool.peek(1).front(), BlockId(0));
  EXPECT_EQ(pool.free(), 100U);
}

TEST(BlockPool, HandsOutNothingAboveItsLimit) {
  BlockPool pool(10);
  pool.release(acquire(pool));
  pool.set_limit(3);
  EXPECT_EQ(pool.free(), 3U);
  EXPECT_EQ(pool.total(), 10U);
  std::set<BlockId> seen;
  while (pool.free() > 0) {
    seen.insert(acquire(pool));
  }
  EXPECT_EQ(seen, (std::set<BlockId>{BlockId(0), BlockId(1), BlockId(2)}));
  pool.set_limit(4);
  EXPECT_EQ(acquire(pool), BlockId(3));
}

TEST(BlockPool, IsAValue) {
  BlockPool pool(3);
  BlockPool other = pool;
  const BlockId block = acquire(pool);
  EXPECT_FALSE(pool == other);
  EXPECT_EQ(acquire(other), block);
  EXPECT_TRUE(pool == other);
  pool.release(block);
  EXPECT_FALSE(pool == other);
  other.release(block);
  EXPECT_TRUE(pool == other);
}

TEST(BlockPoolDeathTest, EndsTheProcessOnADoubleRelease) {
  BlockPool pool(1);
  const BlockId block = acquire(pool);
  pool.release(block);
  EXPECT_DEATH(pool.release(block), "free already");
}

TEST(Sequence, CountsBlocksByFullAndBegunOnes) {
  EXPECT_EQ(step::blocks_for(0), 0U);
  EXPECT_EQ(step::blocks_for(1), 1U);
  EXPECT_EQ(step::blocks_for(step::kBlockTokens), 1U);
  EXPECT_EQ(step::blocks_for(step::kBlockTokens + 1), 2U);
}

TEST(Sequence, CountsTheNewestOwnTokenAsGeneration) {
  Sequence sequence;
  sequence.tokens = SequenceTokens({1, 2, 3, 4});
  sequence.prompt_tokens = 3;
  sequence.submitted_tokens = 4;  // one token of history
  sequence.token_limit = 10;
  EXPECT_EQ(sequence.to_compute(), 4U);
  EXPECT_EQ(sequence.to_generate(), 6U);
  sequence.computed = 4;
  sequence.tokens.push_back(5);
  EXPECT_EQ(sequence.to_compute(), 0U);
  EXPECT_EQ(sequence.to_generate(), 5U);
  sequence.computed = 0;  // preempted
  EXPECT_EQ(sequence.to_compute(), 4U);
}

}  // namespace
}  // namespace phalanx::engine
