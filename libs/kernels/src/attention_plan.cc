// SPDX-License-Identifier: Apache-2.0
// How attention divides into tiles: index arithmetic that all instruction sets share.
#include <algorithm>
#include <cmath>

#include "phalanx/base/check.h"
#include "phalanx/kernels/attention.h"

namespace phalanx::kernels {

namespace {

// Queries times context that one tile may compute: about 3 ms at 80 GFLOP/s and a head of 128.
constexpr std::uint32_t kAttentionTileWork = kAttentionTileQueries * 8192;

constexpr auto kSegment = static_cast<std::uint32_t>(kSegmentTokens);

std::uint32_t quotient_up(std::uint32_t n, std::uint32_t unit) {
  return (n + unit - 1) / unit;
}

std::uint32_t context_of(const AttentionSequence& sequence) {
  return sequence.first_position + sequence.row_count;
}
std::uint32_t segments_of(std::uint32_t context) {
  return quotient_up(context, kSegment);
}
std::uint32_t row_tiles_of(const AttentionSequence& sequence) {
  return quotient_up(sequence.row_count, sequence.tile_rows);
}
std::uint32_t head_tiles_of(const AttentionSequence& sequence, std::uint32_t kv_heads) {
  return quotient_up(kv_heads, sequence.tile_heads);
}

std::uint32_t tiles_of(const AttentionSequence& sequence, std::uint32_t kv_heads) {
  return row_tiles_of(sequence) * head_tiles_of(sequence, kv_heads) * sequence.parts;
}

// Chooses the heads and the part of the context of tiles. Work is counted in tokens whose keys and
// values are read.
class WorkDivision {
 public:
  WorkDivision(std::span<const AttentionSequence> sequences,
               std::uint32_t kv_heads,
               std::uint32_t group,
               const AttentionTeam& team)
      : kv_heads_(kv_heads), group_(group), records_left_(team.records) {
    std::uint64_t tokens = 0;
    for (const AttentionSequence& sequence : sequences) {
      tokens += std::uint64_t{context_of(sequence)} * row_tiles_of(sequence) * kv_heads;
    }
    // A quarter of what a thread has to do: threads that run unevenly end at about the same time.
    const std::uint32_t threads = std::max(team.threads, 1U);
    thread_work_ = threads == 1 ? tokens : tokens / threads / 4;
  }

  // As many heads as a tile can have, and as much of the context as is left to it then. Without
  // records contexts stay whole, and fewer heads go together.
  void divide(AttentionSequence* sequence) {
    const std::uint32_t context = context_of(*sequence);
    const std::uint32_t segments = segments_of(context);
    const std::uint32_t queries = std::min(sequence->tile_rows, sequence->row_count) * group_;
    const std::uint64_t most = std::min<std::uint64_t>(thread_work_, kAttentionTileWork / queries);
    sequence->parts = 1;
    sequence->part_segments = segments;
    sequence->tile_heads = heads_of_tile(*sequence, queries, most / std::min(context, kSegment));
    const std::uint64_t work = std::uint64_t{context} * sequence->tile_heads;
    if (segments == 1 || work <= most) {
      return;
    }
    const std::uint64_t records =
        std::uint64_t{segments} * sequence->row_count * kv_heads_ * group_;
    if (records > records_left_) {
      sequence->tile_heads = heads_of_tile(*sequence, queries, most / context);
      return;
    }
    const std::uint64_t of_part = most / sequence->tile_heads / kSegment;
    sequence->part_segments =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(of_part, 1, segments));
    sequence->parts = quotient_up(segments, sequence->part_segments);
    sequence->first_record = next_record_;
    next_record_ += static_cast<std::uint32_t>(records);
    records_left_ -= records;
  }

 private:
  // At most `most`, about as many in each. Of many rows a head's keys and values are still in the
  // cache of a thread that goes on with the next rows.
  [[nodiscard]] std::uint32_t heads_of_tile(const AttentionSequence& sequence,
                                            std::uint32_t queries,
                                            std::uint64_t most) const {
    if (queries > kFewHeadQueries || row_tiles_of(sequence) > 1) {
      return 1;
    }
    const std::uint64_t room = std::min(kv_heads_, kAttentionTileQueries / queries);
    const auto heads = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most, 1, room));
    return quotient_up(kv_heads_, quotient_up(kv_heads_, heads));
  }

  std::uint32_t kv_heads_;
  std::uint32_t group_;
  std::uint64_t thread_work_;  // of a tile, at most
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

// One head, all of the context.
AttentionTile rows_of_tile(const AttentionSequence& sequence,
                           std::uint32_t row_tile,
                           std::uint32_t kv_head) {
  const std::uint32_t row = row_tile * sequence.tile_rows;
  return {&sequence,
          sequence.first_row + row,
          std::min(sequence.tile_rows, sequence.row_count - row),
          sequence.first_position + row,
          kv_head,
          1,
          0,
          context_of(sequence)};
}

}  // namespace

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
  PHALANX_DCHECK(kv_heads > 0 && group > 0, "attention has heads");
  for (AttentionSequence& sequence : sequences) {
    const std::uint32_t queries = std::clamp(
        kAttentionTileWork / std::max(context_of(sequence), 1U), 1U, kAttentionTileQueries);
    sequence.tile_rows = std::max(queries / group, 1U);
  }
  WorkDivision division(sequences, kv_heads, group, team);
  AttentionPlan plan;
  for (AttentionSequence& sequence : sequences) {
    division.divide(&sequence);
    sequence.first_tile = plan.tiles;
    sequence.first_fold = plan.folds;
    plan.tiles += tiles_of(sequence, kv_heads);
    plan.folds += sequence.parts > 1 ? row_tiles_of(sequence) * kv_heads : 0;
  }
  return plan;
}

AttentionTile attention_tile(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionSequence& sequence = sequence_of(args, &AttentionSequence::first_tile, tile);
  // Heads by heads: a thread that takes tiles in their order finds keys and values of the rows
  // before in its cache.
  const std::uint32_t of_heads = row_tiles_of(sequence) * sequence.parts;
  const std::uint32_t head_tile = (tile - sequence.first_tile) / of_heads;
  const std::uint32_t index = (tile - sequence.first_tile) % of_heads;
  AttentionTile work =
      rows_of_tile(sequence, index / sequence.parts, head_tile * sequence.tile_heads);
  work.head_count = std::min(sequence.tile_heads, args.kv_heads - work.kv_head);
  const std::uint32_t tokens = sequence.part_segments * kSegment;
  work.first_token = index % sequence.parts * tokens;
  work.end_token = std::min(work.first_token + tokens, work.end_token);
  return work;
}

const std::byte* attention_tile_begins(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionSequence& last = args.sequences[args.sequence_count - 1];
  if (tile >= last.first_tile + tiles_of(last, args.kv_heads)) {
    return nullptr;
  }
  const AttentionTile work = attention_tile(args, tile);
  return args.kv.tile(work.sequence->blocks[work.first_token / kKvBlockTokens], work.kv_head);
}

void list_behind(const AttentionArgs& args,
                 std::uint32_t tile,
                 std::size_t distance,
                 ReadAhead* ahead) {
  const AttentionTile work = attention_tile(args, tile);
  if (work.first_row != work.sequence->first_row) {
    return;
  }
  const std::size_t end = work.end_token / kKvBlockTokens;
  for (std::size_t i = work.first_token / kKvBlockTokens; i < end; ++i) {
    const std::byte* first = args.kv.tile(work.sequence->blocks[i], work.kv_head);
    ahead->add(first + distance, work.head_count * args.kv.head_stride);
  }
}

AttentionTile attention_fold_tile(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionSequence& sequence = sequence_of(args, &AttentionSequence::first_fold, tile);
  const std::uint32_t index = tile - sequence.first_fold;
  return rows_of_tile(sequence, index / args.kv_heads, index % args.kv_heads);
}

float* attention_record(const AttentionArgs& args,
                        const AttentionSequence& sequence,
                        std::size_t token,
                        std::size_t row,
                        std::size_t head) {
  const std::size_t segments = segments_of(context_of(sequence));
  const std::size_t segment = head / args.group * segments + token / kSegmentTokens;
  const std::size_t of_rows = segment * sequence.row_count + (row - sequence.first_row);
  const std::size_t record = sequence.first_record + of_rows * args.group + head % args.group;
  return args.records.data + record * args.records.floats;
}

}  // namespace phalanx::kernels
