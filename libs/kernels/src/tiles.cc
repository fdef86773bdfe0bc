// SPDX-License-Identifier: Apache-2.0
// How operations divide into tiles, and how the leaves of a summation tree are walked: index
// arithmetic that all instruction sets share.
#include "phalanx/base/check.h"
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

}  // namespace phalanx::kernels
