// SPDX-License-Identifier: Apache-2.0
// Choosing tokens from logits that lie in the shards of several ranks. Every phase works on one row
// at a time from this rank's part of the vocabulary and from what the ranks exchanged after the
// phase before; where there are fewer rows than threads, the phases that read the vocabulary work
// on parts of rows. Whatever the number of ranks and threads, all reach the same tokens and the
// same log probabilities (docs/arithmetic.md, "Sampling").
//
// Phases, for each row that samples:
//   shape   penalties, bias, masks, temperature; this rank's largest logits     → exchange peaks
//   peak    the maxima of the whole row; rows that take the largest logit are decided
//   count   histogram of the kept tokens, one byte of the key  → exchange histograms  ┐ 4 times, for
//   select  the byte of the threshold                                                 ┘ top_k, top_p
//   draw    min_p, Gumbel noise, this rank's best; raw mass for log probabilities  → exchange draws
//   finish  the token and its log probabilities
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/kernels/kernel_table.h"
#include "phalanx/kernels/vocab.h"
#include "phalanx/model/candidates.h"
#include "phalanx/model/row_parts.h"
#include "phalanx/model/sampled_token.h"
#include "phalanx/model/shard_plan.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sequence_table.h"

namespace phalanx::model {

// What a rank tells the others about its part of a row. add() takes in what follows in the row.
struct PeakRecord {
  kernels::VocabPeak raw;
  kernels::VocabPeak shaped;
  float shaped_raw = 0.0F;  // the raw logit of shaped.id
  std::uint32_t top_count = 0;
  std::array<kernels::VocabCandidate, step::kMaxTopLogprobs> top{};

  // most: of the likeliest tokens that are wanted
  void add(const PeakRecord& next, std::uint32_t most);
};
struct DrawRecord {
  kernels::VocabPeak peak;
  float raw = 0.0F;           // the raw logit of peak.id
  std::int64_t raw_mass = 0;  // of this rank's part, when log probabilities were asked for

  void add(const DrawRecord& next);
};

enum class Selection : std::uint8_t { kTopK, kTopP };
inline constexpr std::uint32_t kSelectionPasses = 4;  // one byte of the key each

// One pass over the keys of one selection.
struct SelectionPass {
  Selection selection = Selection::kTopK;
  std::uint32_t pass = 0;
};

// Buffers of all rows that sample, logits_stride apart.
struct LogitBuffers {
  const float* raw = nullptr;
  const float* shaped = nullptr;
};

// A row that samples, as the step sees it.
struct SampleRow {
  std::uint32_t item = 0;      // of the step
  std::uint32_t slot = 0;      // of the sequence table
  std::uint32_t position = 0;  // of the token to draw
};

// Threads: begin() and the accessors on one; different tiles of a phase on many.
class Sampler {
 public:
  struct Options {
    Run tokens;  // the ids whose logits this rank has
    std::uint32_t rank = 0;
    std::uint32_t ranks = 1;
    std::uint32_t rows_max = 0;
    std::uint32_t threads = 1;
    std::uint32_t part_tokens_least = 4096;  // fewer are not worth a tile
    std::uint32_t list_tokens_most = 4096;   // of the candidates of a part; with more it is scanned
    std::size_t logits_stride = 0;           // elements between rows of logits and of shaped logits
  };
  Sampler(const Options& options, const step::SequenceTable& table);

  // Bytes that a sampler of these options allocates.
  [[nodiscard]] static std::size_t heap_bytes(const Options& options);

  // Starts a step. Allocates nothing. rows.size() ≤ rows_max.
  void begin(std::span<const SampleRow> rows);

  // From now on shape() also copies the raw logits of row r to out[r · tokens.count]; an empty span
  // ends it. For tools and tests.
  void keep_raw_logits(std::span<float> out) { raw_copy_ = out; }

  // Tiles of the phases shape, count and draw over so many rows. The other phases have a tile a
  // row.
  [[nodiscard]] std::uint32_t tiles(std::uint32_t rows) const {
    return rows * divided_.parts(rows);
  }

  // How many rows take part in the phases of a selection, and in draw.
  [[nodiscard]] std::uint32_t selecting(Selection selection) const;
  [[nodiscard]] std::uint32_t drawn() const { return drawn_count_; }

  // Records are indexed [row] for own ones, complete when all tiles are done, and [rank][row] for
  // all. In count, select and draw, rows are numbered within those that take part.
  void shape(const kernels::KernelTable& kernels,
             const float* logits,
             float* shaped,
             PeakRecord* own,
             std::uint32_t tile,
             std::uint32_t thread);
  void peak(const PeakRecord* all, std::uint32_t row);
  void count(const kernels::KernelTable& kernels,
             const LogitBuffers& logits,
             SelectionPass pass,
             kernels::VocabHistogram* own,
             std::uint32_t tile);
  void select(const LogitBuffers& logits,
              SelectionPass pass,
              const kernels::VocabHistogram* all,
              std::uint32_t index);
  void draw(const kernels::KernelTable& kernels,
            const LogitBuffers& logits,
            DrawRecord* own,
            std::uint32_t tile);
  // Writes results[item]. A row with a NaN, an infinity or no token that may be drawn gets none, on
  // all ranks alike.
  void finish(const DrawRecord* all, SampledToken* results, std::uint32_t row);

 private:
  struct RowState {
    SampleRow row;
    bool is_shaped = false;  // the shaped buffer holds the row; otherwise raw = shaped
    bool is_greedy = false;
    RowFault fault = RowFault::kNone;
    bool wants_logprobs = false;
    PeakRecord peak;           // of the whole row
    kernels::VocabKeep keep;   // what is kept so far, seen from this rank
    std::uint32_t prefix = 0;  // of the threshold being searched
    std::int64_t target = 0;   // tokens or mass still to find below the prefix
    std::int32_t draw_index = -1;
  };

  [[nodiscard]] kernels::VocabSlice slice(const float* logits,
                                          std::uint32_t row,
                                          const Run& tokens) const;
  [[nodiscard]] kernels::VocabSlice shaped_slice(const LogitBuffers& logits,
                                                 std::uint32_t row,
                                                 const Run& tokens) const;
  [[nodiscard]] const step::SequenceRow& sequence(const RowState& state) const;
  [[nodiscard]] std::uint32_t row_of(Selection selection, std::uint32_t index) const;
  void shape_row(const kernels::KernelTable& kernels,
                 const RowState& state,
                 const kernels::VocabSlice& raw,
                 float* out,
                 std::uint32_t thread);
  void apply_penalties(const RowState& state,
                       const kernels::VocabSlice& raw,
                       float* shaped,
                       std::uint32_t thread);
  void ban_masked(const RowState& state, const kernels::VocabSlice& raw, float* logits) const;
  void count_history(const RowState& state,
                     const kernels::VocabSlice& raw,
                     std::span<std::uint32_t> counts) const;
  [[nodiscard]] std::uint32_t top_logprobs(const RowState& state) const;
  void draw_part(const kernels::KernelTable& kernels,
                 const LogitBuffers& logits,
                 const RowPart& part,
                 DrawRecord* record);
  void start_selection(RowState& state, Selection selection, const kernels::VocabHistogram* all);
  void settle_ties(RowState& state,
                   const kernels::VocabSlice& slice,
                   std::span<const std::uint64_t> tied_by_rank) const;

  Options options_;
  const step::SequenceTable& table_;
  RowParts divided_;
  // [tile], where rows have several parts.
  std::vector<PeakRecord> peak_parts_;
  std::vector<kernels::VocabHistogram> histogram_parts_;
  std::vector<DrawRecord> draw_parts_;
  CandidateLists candidates_;
  std::vector<RowState> states_;
  std::uint32_t row_count_ = 0;
  std::array<std::vector<std::uint32_t>, 2> selecting_;  // rows, by selection
  std::array<std::uint32_t, 2> selecting_count_{};
  std::vector<std::uint32_t> drawn_;
  std::uint32_t drawn_count_ = 0;
  // Per thread and local token: bit 31 = seen, the rest how often produced. Zero between rows.
  std::vector<std::uint32_t> counts_;
  std::span<float> raw_copy_;
};

}  // namespace phalanx::model
