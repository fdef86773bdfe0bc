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

std::uint32_t context_of(const AttentionSequence& sequence) {
  return sequence.first_position + sequence.row_count;
}
std::uint32_t segments_of(std::uint32_t context) {
  constexpr auto kTokens = static_cast<std::uint32_t>(kSegmentTokens);
  return (context + kTokens - 1) / kTokens;
}
std::uint32_t row_tiles_of(const AttentionSequence& sequence) {
  return (sequence.row_count + sequence.tile_rows - 1) / sequence.tile_rows;
}

// A context that is longer than half of what a thread has to do is divided so that a part is about
// a quarter of that, where there is room for its records.
class ContextDivision {
 public:
  ContextDivision(std::span<const AttentionSequence> sequences,
                  std::uint32_t kv_heads,
                  std::uint32_t group,
                  const AttentionTeam& team)
      : row_records_(std::uint64_t{kv_heads} * group), records_left_(team.records) {
    std::uint64_t tokens = 0;
    for (const AttentionSequence& sequence : sequences) {
      tokens += std::uint64_t{context_of(sequence)} * row_tiles_of(sequence) * kv_heads;
    }
    share_ = tokens / std::max(team.threads, 1U);
  }

  void divide(AttentionSequence* sequence) {
    const std::uint32_t segments = segments_of(context_of(*sequence));
    sequence->parts = 1;
    sequence->part_segments = segments;
    if (segments < 2 || context_of(*sequence) <= share_ / 2) {
      return;
    }
    const std::uint64_t records = std::uint64_t{segments} * sequence->row_count * row_records_;
    if (records > records_left_) {
      return;
    }
    const auto most = static_cast<std::uint32_t>(share_ / 4 / kSegmentTokens);
    sequence->part_segments = std::clamp(most, 1U, segments);
    sequence->parts = (segments + sequence->part_segments - 1) / sequence->part_segments;
    sequence->first_record = next_record_;
    next_record_ += static_cast<std::uint32_t>(records);
    records_left_ -= records;
  }

 private:
  std::uint64_t share_ = 0;    // tokens that a thread attends to, over all heads and tiles
  std::uint64_t row_records_;  // of a row and segment
  std::uint64_t records_left_;
  std::uint32_t next_record_ = 0;
};

// The last sequence whose `first` is at most `tile`.
const AttentionSequence& sequence_of(const AttentionArgs& args,
                                     std::uint32_t AttentionSequence::*first,
                                     std::uint32_t tile) {
  const AttentionSequence* end = args.sequences + args.sequence_count;
  const AttentionSequence* next = std::upper_bound(
      args.sequences, end, tile, [first](std::uint32_t value, const AttentionSequence& sequence) {
        return value < sequence.*first;
      });
  PHALANX_DCHECK(next != args.sequences, "attention tiles were not planned");
  return *(next - 1);
}

AttentionTile rows_of_tile(const AttentionSequence& sequence,
                           std::uint32_t row_tile,
                           std::uint32_t kv_head) {
  const std::uint32_t row = row_tile * sequence.tile_rows;
  return {&sequence,
          sequence.first_row + row,
          std::min(sequence.tile_rows, sequence.row_count - row),
          sequence.first_position + row,
          kv_head,
          0,
          context_of(sequence)};
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

float attention_scale(std::uint32_t head_dim) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  return static_cast<float>(kLog2E / std::sqrt(static_cast<double>(head_dim)));
}

std::size_t attention_record_floats(std::uint32_t head_dim) {
  return padded_columns(head_dim) + 16;
}

AttentionPlan plan_attention(std::span<AttentionSequence> sequences,
                             std::uint32_t kv_heads,
                             std::uint32_t group,
                             const AttentionTeam& team) {
  for (AttentionSequence& sequence : sequences) {
    const std::uint32_t queries = std::clamp(
        kAttentionTileWork / std::max(context_of(sequence), 1U), 1U, kAttentionTileQueries);
    sequence.tile_rows = std::max(queries / std::max(group, 1U), 1U);
  }
  ContextDivision division(sequences, kv_heads, group, team);
  AttentionPlan plan;
  for (AttentionSequence& sequence : sequences) {
    division.divide(&sequence);
    const std::uint32_t tiles = row_tiles_of(sequence) * kv_heads;
    sequence.first_tile = plan.tiles;
    sequence.first_fold = plan.folds;
    plan.tiles += tiles * sequence.parts;
    plan.folds += sequence.parts > 1 ? tiles : 0;
  }
  return plan;
}

AttentionTile attention_tile(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionSequence& sequence = sequence_of(args, &AttentionSequence::first_tile, tile);
  // Head by head: a thread that takes tiles in their order finds keys and values of the rows before
  // in its cache.
  const std::uint32_t of_head = row_tiles_of(sequence) * sequence.parts;
  const std::uint32_t index = (tile - sequence.first_tile) % of_head;
  AttentionTile work =
      rows_of_tile(sequence, index / sequence.parts, (tile - sequence.first_tile) / of_head);
  const auto tokens = static_cast<std::uint32_t>(sequence.part_segments * kSegmentTokens);
  work.first_token = index % sequence.parts * tokens;
  work.end_token = std::min(work.first_token + tokens, work.end_token);
  return work;
}

const std::byte* attention_tile_begins(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionTile work = attention_tile(args, tile);
  if (work.kv_head >= args.kv_heads) {
    return nullptr;
  }
  return args.kv.tile(work.sequence->blocks[work.first_token / kKvBlockTokens], work.kv_head);
}

AttentionTile attention_fold_tile(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionSequence& sequence = sequence_of(args, &AttentionSequence::first_fold, tile);
  const std::uint32_t index = tile - sequence.first_fold;
  return rows_of_tile(sequence, index / args.kv_heads, index % args.kv_heads);
}

float* attention_record(const AttentionArgs& args,
                        const AttentionTile& tile,
                        std::size_t token,
                        std::size_t row,
                        std::size_t member) {
  const AttentionSequence& sequence = *tile.sequence;
  const std::size_t segments = segments_of(context_of(sequence));
  const std::size_t segment = tile.kv_head * segments + token / kSegmentTokens;
  const std::size_t of_rows = segment * sequence.row_count + (row - sequence.first_row);
  const std::size_t record = sequence.first_record + of_rows * args.group + member;
  return args.records.data + record * args.records.floats;
}

}  // namespace phalanx::kernels
