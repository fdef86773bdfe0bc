// SPDX-License-Identifier: Apache-2.0
// How the work of attention is divided.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/kernels/attention.h"

namespace phalanx::kernels {
namespace {

// Which of the tokens of a context the tiles of a plan attend to, for each row and head.
std::vector<int> tokens_seen(std::span<const AttentionSequence> sequences,
                             std::uint32_t kv_heads,
                             std::uint32_t tiles) {
  const AttentionSequence& last = sequences.back();
  const std::uint32_t rows = last.first_row + last.row_count;
  constexpr std::uint32_t kMost = 32;  // segments
  std::vector<int> seen(std::size_t{rows} * kv_heads * kMost);
  AttentionArgs args;
  args.kv_heads = kv_heads;
  args.group = 2;
  args.sequences = sequences.data();
  args.sequence_count = static_cast<std::uint32_t>(sequences.size());
  for (std::uint32_t tile = 0; tile < tiles; ++tile) {
    const AttentionTile work = attention_tile(args, tile);
    EXPECT_LT(work.first_token, work.end_token);
    EXPECT_LE(work.kv_head + work.head_count, kv_heads);
    for (std::uint32_t i = 0; i < work.row_count * work.head_count; ++i) {
      const std::size_t row = work.first_row + i / work.head_count;
      const std::size_t head = work.kv_head + i % work.head_count;
      for (std::size_t token = work.first_token; token < work.end_token; token += kSegmentTokens) {
        ++seen[(row * kv_heads + head) * kMost + token / kSegmentTokens];
      }
    }
  }
  return seen;
}

TEST(PlanAttention, DividesContextsThatLeaveThreadsWithoutWork) {
  const std::uint32_t table[1] = {};
  const auto plan_for = [&](std::vector<AttentionSequence>& sequences, AttentionTeam team) {
    return plan_attention(sequences, 4, 2, team);
  };
  const std::vector<AttentionSequence> made = {
      {0, 1, 700, table}, {1, 1, 20000, table}, {2, 2, 4094, table}, {4, 1, 9000, table}};
  for (const std::uint32_t threads : {1U, 2U, 3U, 8U, 16U, 64U, 1024U}) {
    std::vector<AttentionSequence> sequences = made;
    const AttentionPlan plan = plan_for(sequences, {threads, 4096});
    const std::vector<int> seen = tokens_seen(sequences, 4, plan.tiles);
    for (const AttentionSequence& sequence : sequences) {
      for (std::uint32_t row = 0; row < sequence.row_count; ++row) {
        const std::uint32_t segments = (sequence.first_position + sequence.row_count + 1023) / 1024;
        for (std::size_t head = 0; head < 4; ++head) {
          for (std::size_t segment = 0; segment < 32; ++segment) {
            EXPECT_EQ(seen[((sequence.first_row + row) * 4 + head) * 32 + segment],
                      segment < segments ? 1 : 0)
                << threads << " " << sequence.first_position << " " << segment;
          }
        }
      }
    }
    // One thread divides nothing; with more of them, parts are smaller.
    EXPECT_EQ(plan.folds == 0, threads == 1) << threads;
    EXPECT_GE(plan.tiles, std::min(threads, 4U * (1 + 20 + 4 + 9))) << threads;
  }
}

TEST(PlanAttention, DividesOnlyWhatThereIsRoomFor) {
  const std::uint32_t table[1] = {};
  // Of two heads and a group of two: 4 records a segment and row.
  std::vector<AttentionSequence> sequences = {
      {0, 1, 8191, table}, {1, 1, 4095, table}, {2, 1, 8191, table}};
  AttentionPlan plan = plan_attention(sequences, 2, 2, {64, 4 * 8 + 4 * 4});
  EXPECT_EQ(plan.tiles, 2U * (8 + 4 + 1));
  EXPECT_EQ(plan.folds, 2U * 2);
  EXPECT_EQ(sequences[1].first_record, 4U * 8);
  EXPECT_EQ(sequences[2].parts, 1U);
  plan = plan_attention(sequences, 2, 2, {64, 0});
  EXPECT_EQ(plan.folds, 0U);
  // Tiles of folds find their sequences past those that are not divided.
  sequences = {{0, 1, 100, table}, {1, 1, 8191, table}, {2, 1, 100, table}, {3, 1, 8191, table}};
  plan = plan_attention(sequences, 2, 2, {64, 1024});
  ASSERT_EQ(plan.folds, 4U);
  AttentionArgs args;
  args.kv_heads = 2;
  args.group = 2;
  args.sequences = sequences.data();
  args.sequence_count = 4;
  std::vector<std::uint32_t> rows;
  for (std::uint32_t tile = 0; tile < plan.folds; ++tile) {
    rows.push_back(attention_fold_tile(args, tile).first_row);
  }
  EXPECT_EQ(rows, (std::vector<std::uint32_t>{1, 1, 3, 3}));
}

TEST(PlanAttention, CoversEveryRowAndHeadOnce) {
  const std::uint32_t table[64] = {};
  for (const std::uint32_t kv_heads : {1U, 3U, 8U}) {
    for (const AttentionTeam& team : {AttentionTeam{}, AttentionTeam{2, 1U << 16}}) {
      std::vector<AttentionSequence> sequences = {{0, 1, 40, table},
                                                  {1, 13, 0, table},
                                                  {14, 3, 20000, table},
                                                  {17, 30, 31000, table},
                                                  {47, 1, 300, table}};
      const std::uint32_t tiles = plan_attention(sequences, kv_heads, 2, team).tiles;
      const std::vector<int> seen = tokens_seen(sequences, kv_heads, tiles);
      for (const AttentionSequence& sequence : sequences) {
        const std::uint32_t segments = (sequence.first_position + sequence.row_count + 1023) / 1024;
        const std::size_t first = std::size_t{sequence.first_row} * kv_heads * 32;
        for (std::size_t i = 0; i < std::size_t{sequence.row_count} * kv_heads * 32; ++i) {
          EXPECT_EQ(seen[first + i], i % 32 < segments ? 1 : 0) << sequence.first_row << " " << i;
        }
      }
    }
  }
}

// The heads of the first tile, and whether contexts are divided.
struct Division {
  std::uint32_t heads;
  std::uint32_t parts;

  friend bool operator==(const Division&, const Division&) = default;
  friend void PrintTo(const Division& division, std::ostream* out) {
    *out << division.heads << " heads, " << division.parts << " parts";
  }
};
Division divide(std::uint32_t count,
                std::uint32_t rows,
                std::uint32_t context,
                std::uint32_t group,
                AttentionTeam team) {
  constexpr std::uint32_t kHeads = 8;
  std::vector<AttentionSequence> sequences;
  for (std::uint32_t i = 0; i < count; ++i) {
    sequences.push_back({i * rows, rows, context - rows, nullptr});
  }
  EXPECT_NE(plan_attention(sequences, kHeads, group, team).tiles, 0U);
  return {sequences[0].tile_heads, sequences[0].parts};
}

TEST(PlanAttention, HeadsGoTogetherWhereQueriesAreFew) {
  constexpr std::uint32_t kRecords = 1U << 20;
  // All of them, if a tile is still at most a quarter of what a thread has to do …
  EXPECT_EQ(divide(16, 1, 128, 2, {2, 0}), (Division{8, 1}));
  EXPECT_EQ(divide(1, 1, 10000, 2, {1, 0}), (Division{8, 1}));
  // … else parts of long contexts and fewer heads of short ones.
  EXPECT_EQ(divide(4, 1, 8192, 2, {2, kRecords}), (Division{8, 2}));
  EXPECT_EQ(divide(1, 1, 8192, 2, {2, kRecords}), (Division{8, 8}));
  EXPECT_EQ(divide(1, 1, 8192, 2, {16, kRecords}), (Division{1, 8}));
  EXPECT_EQ(divide(4, 1, 128, 2, {2, kRecords}), (Division{4, 1}));
  EXPECT_EQ(divide(1, 1, 128, 2, {2, kRecords}), (Division{1, 1}));
  // About as many in each tile.
  EXPECT_EQ(divide(9, 1, 128, 2, {3, 0}).heads, 4U);
  // One thread, too, has tiles that take some ms at most.
  EXPECT_EQ(divide(1, 1, 100000, 2, {1, kRecords}), (Division{8, 7}));
  EXPECT_EQ(divide(1, 1, 100000, 2, {1, 0}), (Division{1, 1}));
  // Rows of several tiles find keys and values of a head in the cache.
  EXPECT_EQ(divide(1, 512, 120000, 2, {2, kRecords}).heads, 1U);
  // Without records contexts stay whole.
  EXPECT_EQ(divide(4, 1, 8192, 2, {2, 0}), (Division{4, 1}));
  // All queries are of one tile, and those of a head are few.
  EXPECT_EQ(divide(16, 2, 128, 2, {2, 0}), (Division{8, 1}));
  EXPECT_EQ(divide(16, 4, 128, 2, {2, 0}), (Division{4, 1}));
  EXPECT_EQ(divide(16, 1, 128, 7, {2, 0}), (Division{4, 1}));
  EXPECT_EQ(divide(16, 5, 128, 2, {2, 0}), (Division{1, 1}));
  EXPECT_EQ(divide(16, 1, 128, 9, {2, 0}), (Division{1, 1}));
}

TEST(PlanAttention, KnowsWhereEachTileBeginsAndWhenThereIsNoFurther) {
  const std::uint32_t blocks[2] = {4, 1};
  std::vector<AttentionSequence> sequences = {{0, 2, 30, blocks}};
  const std::uint32_t tiles = plan_attention(sequences, 3, 1, {}).tiles;
  std::vector<std::byte> memory(5 * 3 * 64);
  AttentionArgs args;
  args.kv = {memory.data(), 3 * 64, 64};
  args.kv_heads = 3;
  args.group = 1;
  args.sequences = sequences.data();
  args.sequence_count = 1;
  for (std::uint32_t tile = 0; tile < tiles; ++tile) {
    EXPECT_EQ(attention_tile_begins(args, tile),
              args.kv.tile(4, attention_tile(args, tile).kv_head));
  }
  EXPECT_EQ(attention_tile_begins(args, tiles), nullptr);
}

TEST(ListBehind, ListsWholeBlocksOfEveryTileOnce) {
  const std::uint32_t blocks[] = {3, 4, 9};
  const std::vector<std::byte> cache(1 << 20);
  // A row that decodes behind 70 tokens, a prompt of 40 rows, and 20 tokens: less than a block.
  std::vector<AttentionSequence> sequences = {
      {0, 1, 70, blocks}, {1, 40, 0, blocks}, {41, 1, 20, blocks}};
  AttentionArgs args;
  args.kv = {const_cast<std::byte*>(cache.data()), 32768, 4096, KvFormat::kBf16};
  args.kv_heads = 2;
  args.group = 2;
  const std::uint32_t tiles = plan_attention(sequences, args.kv_heads, args.group, {}).tiles;
  args.sequences = sequences.data();
  args.sequence_count = static_cast<std::uint32_t>(sequences.size());
  const auto ahead = std::make_unique<ReadAhead>();
  ahead->begin(&args);
  for (std::uint32_t tile = 0; tile < tiles; ++tile) {
    list_behind(args, tile, 8192, ahead.get());
  }
  // Both heads of a tile, then each head of the prompt, whose first rows see one block.
  const std::pair<std::size_t, std::size_t> expected[] = {
      {3 * 32768, 8192}, {4 * 32768, 8192}, {3 * 32768, 8192}};
  for (const auto& [offset, bytes] : expected) {
    const ReadAhead::Lines lines = ahead->take(1, ReadAhead::kMaxLines);
    EXPECT_EQ(lines.first, cache.data() + offset + 8192);
    EXPECT_EQ(lines.count * 64, bytes);
  }
  EXPECT_EQ(ahead->take(1, ReadAhead::kMaxLines).count, 0U);
}

}  // namespace
}  // namespace phalanx::kernels
