// SPDX-License-Identifier: Apache-2.0
// How operations divide into tiles, and how the leaves of a summation tree are walked: index
// arithmetic that all instruction sets share.
#include <algorithm>
#include <cmath>

#include "phalanx/base/check.h"
#include "phalanx/kernels/attention.h"
#include "phalanx/kernels/matmul.h"
#include "phalanx/kernels/quantize.h"
#include "phalanx/kernels/rows.h"

namespace phalanx::kernels {

namespace {

std::uint32_t largest_power_of_two_below(std::uint32_t n) {
  std::uint32_t power = 1;
  while (power * 2 < n) {
    power *= 2;
  }
  return power;
}

struct LeafRun {
  std::uint32_t first;
  std::span<MatmulLeaf> leaves;

  [[nodiscard]] std::uint32_t end() const {
    return first + static_cast<std::uint32_t>(leaves.size());
  }
  [[nodiscard]] MatmulLeaf& at(std::uint32_t leaf) const { return leaves[leaf - first]; }
};

// The subtree [begin, end) lies in the run: each of its inner nodes is a merge after its last leaf.
void merge_subtree(const LeafRun& run, std::uint32_t begin, std::uint32_t end) {
  if (end - begin == 1) {
    return;
  }
  const std::uint32_t middle = begin + largest_power_of_two_below(end - begin);
  merge_subtree(run, begin, middle);
  merge_subtree(run, middle, end);
  ++run.at(end - 1).merges;
}

std::uint32_t cover(const LeafRun& run, std::uint32_t begin, std::uint32_t end) {
  if (end <= run.first || begin >= run.end()) {
    return 0;
  }
  if (begin >= run.first && end <= run.end()) {
    merge_subtree(run, begin, end);
    run.at(end - 1).emit = true;
    return 1;
  }
  const std::uint32_t middle = begin + largest_power_of_two_below(end - begin);
  return cover(run, begin, middle) + cover(run, middle, end);
}

// Queries times context that one tile may compute: about 3 ms at 80 GFLOP/s and a head of 128.
constexpr std::uint32_t kAttentionTileWork = kAttentionTileQueries * 8192;

}  // namespace

std::uint32_t plan_leaves(std::uint32_t total, std::uint32_t first, std::span<MatmulLeaf> leaves) {
  PHALANX_CHECK(total <= kMaxLeaves && first <= total && leaves.size() <= total - first,
                "the run of leaves is not part of the tree");
  for (MatmulLeaf& leaf : leaves) {
    leaf.merges = 0;
    leaf.emit = false;
  }
  return leaves.empty() ? 0 : cover(LeafRun{first, leaves}, 0, total);
}

std::uint32_t matmul_tiles(const MatmulArgs& args) {
  const std::uint32_t row_tile_count = (args.rows + kMatmulTileRows - 1) / kMatmulTileRows;
  const std::uint32_t column_tiles = (args.columns + kMatmulTileColumns - 1) / kMatmulTileColumns;
  return row_tile_count * column_tiles;
}

std::size_t code_stride(const QuantizeLeaf* leaves, std::uint32_t leaf_count) {
  std::size_t codes = 0;
  for (std::uint32_t i = 0; i < leaf_count; ++i) {
    codes += padded_k(leaves[i].k);
  }
  return tensor::round_up(codes, kCodeAlignment);
}

std::uint32_t kv_append_tiles(const KvAppendArgs& args) {
  return row_tiles(args.rows) * args.kv_heads;
}

float attention_scale(std::uint32_t head_dim) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  return static_cast<float>(kLog2E / std::sqrt(static_cast<double>(head_dim)));
}

std::uint32_t plan_attention(std::span<AttentionSequence> sequences,
                             std::uint32_t kv_heads,
                             std::uint32_t group) {
  std::uint32_t tiles = 0;
  for (AttentionSequence& sequence : sequences) {
    const std::uint32_t context = sequence.first_position + sequence.row_count;
    const std::uint32_t queries =
        std::clamp(kAttentionTileWork / std::max(context, 1U), 1U, kAttentionTileQueries);
    sequence.tile_rows = std::max(queries / std::max(group, 1U), 1U);
    sequence.first_tile = tiles;
    tiles += (sequence.row_count + sequence.tile_rows - 1) / sequence.tile_rows * kv_heads;
  }
  return tiles;
}

AttentionTile attention_tile(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionSequence* end = args.sequences + args.sequence_count;
  const AttentionSequence* next = std::upper_bound(
      args.sequences, end, tile, [](std::uint32_t value, const AttentionSequence& sequence) {
        return value < sequence.first_tile;
      });
  PHALANX_DCHECK(next != args.sequences, "attention tiles were not planned");
  const AttentionSequence& sequence = *(next - 1);
  const std::uint32_t index = tile - sequence.first_tile;
  const std::uint32_t row = index / args.kv_heads * sequence.tile_rows;
  return {&sequence,
          sequence.first_row + row,
          std::min(sequence.tile_rows, sequence.row_count - row),
          sequence.first_position + row,
          index % args.kv_heads};
}

}  // namespace phalanx::kernels
