// SPDX-License-Identifier: Apache-2.0
// top_k and top_p without a sort: the threshold is found one byte of the logit key at a time, from
// histograms that the ranks add up. Ties at the threshold go to the lower ids, that is to the lower
// ranks first.
#include <algorithm>
#include <limits>

#include "phalanx/collective/summation_tree.h"
#include "phalanx/model/sampler.h"
#include "phalanx/step/sampling.h"

#include "sampler_bounds.h"

namespace phalanx::model {
namespace {

using kernels::VocabHistogram;
using kernels::VocabKeep;

constexpr std::uint32_t kBuckets = 256;

constexpr int shift_of(std::uint32_t pass) {
  return 24 - 8 * static_cast<int>(pass);
}

void add(VocabHistogram* sum, const VocabHistogram& next) {
  for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    sum->count[bucket] += next.count[bucket];
    sum->mass[bucket] += next.mass[bucket];
  }
}

CandidateFloors top_k_floors(const kernels::KernelTable& kernels,
                             const kernels::VocabSlice& slice,
                             const step::SamplingNumbers& sampling) {
  const float floor = floor_of_kth(kernels, slice, static_cast<std::uint32_t>(sampling.top_k));
  return {floor, floor};
}

CandidateFloors top_p_floors(const step::SamplingNumbers& sampling,
                             float maximum,
                             std::uint32_t vocab) {
  const std::uint32_t most =
      sampling.top_k > 0 ? std::min(static_cast<std::uint32_t>(sampling.top_k), vocab) : vocab;
  return {kernels::mass_floor(maximum), kernels::top_p_floor(maximum, sampling.top_p, most)};
}

// Counts and masses of one bucket over all ranks.
struct Bucket {
  std::int64_t count = 0;
  std::int64_t mass = 0;
};
Bucket sum_bucket(const VocabHistogram* all,
                  std::size_t stride,
                  std::uint32_t ranks,
                  std::uint32_t bucket) {
  Bucket sum;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const VocabHistogram& histogram = all[rank * stride];
    sum.count += static_cast<std::int64_t>(histogram.count[bucket]);
    sum.mass += histogram.mass[bucket];
  }
  return sum;
}

}  // namespace

void Sampler::count(const kernels::KernelTable& kernels,
                    const LogitBuffers& logits,
                    SelectionPass pass,
                    VocabHistogram* own,
                    std::uint32_t tile) {
  const RowPart part = divided_.part(selecting(pass.selection), tile);
  VocabHistogram& histogram = part.parts == 1 ? own[part.row] : histogram_parts_[part.tile];
  histogram = VocabHistogram();
  const std::uint32_t row = row_of(pass.selection, part.row);
  const RowState& state = states_[row];
  if (state.fault == RowFault::kNone) {
    const kernels::VocabSlice slice = shaped_slice(logits, row, part.tokens);
    const float maximum = state.peak.shaped.value;
    Candidates& candidates = candidates_.of(row, part);
    if (pass.pass == 0) {
      const step::SamplingNumbers& sampling = sequence(state).sampling;
      const CandidateFloors floors = pass.selection == Selection::kTopP
                                         ? top_p_floors(sampling, maximum, table_.vocab())
                                         : top_k_floors(kernels, slice, sampling);
      candidates.find(kernels, slice, state.keep, floors, maximum);
      // Tokens that are not listed count towards the total alone: in the lowest bucket, which the
      // search for the threshold does not reach, since listed tokens meet the target by themselves.
      histogram.mass[0] = candidates.unlisted_mass;
    }
    kernels::VocabHistogramArgs args;
    if (candidates.is_listed) {
      args.slice = {candidates.list.logits, candidates.list.count, 0};
    } else {
      args.slice = slice;
      args.keep = candidates.keep;
    }
    args.maximum = maximum;
    args.prefix = pass.pass == 0 ? 0 : state.prefix;
    args.shift = shift_of(pass.pass);
    kernels.vocab_histogram(args, &histogram);
  }
  divided_.merge(part, histogram, histogram_parts_, own, add);
}

// `all` is the first histogram of the row; those of the next rank follow after all rows.
void Sampler::start_selection(RowState& state, Selection selection, const VocabHistogram* all) {
  const step::SamplingNumbers& sampling = sequence(state).sampling;
  state.prefix = 0;
  state.target = sampling.top_k;
  if (selection == Selection::kTopP) {
    std::int64_t total = 0;
    for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      total += sum_bucket(all, selecting(selection), options_.ranks, bucket).mass;
    }
    state.target = kernels::mass_target(sampling.top_p, total);
  }
}

void Sampler::select(const LogitBuffers& logits,
                     SelectionPass pass,
                     const VocabHistogram* all,
                     std::uint32_t index) {
  const std::uint32_t row = row_of(pass.selection, index);
  RowState& state = states_[row];
  if (state.fault != RowFault::kNone) {
    return;
  }
  const std::size_t stride = selecting(pass.selection);
  const VocabHistogram* histograms = all + index;
  const bool by_count = pass.selection == Selection::kTopK;
  if (pass.pass == 0) {
    start_selection(state, pass.selection, histograms);
  }
  std::uint32_t bucket = kBuckets - 1;
  Bucket found = sum_bucket(histograms, stride, options_.ranks, bucket);
  const auto weight = [&] { return by_count ? found.count : found.mass; };
  while (weight() < state.target && bucket > 0) {
    state.target -= weight();
    found = sum_bucket(histograms, stride, options_.ranks, --bucket);
  }
  state.prefix |= bucket << shift_of(pass.pass);
  if (pass.pass + 1 < kSelectionPasses) {
    return;
  }
  if (!by_count && found.count > 0) {
    // Tokens of one key have one mass: as many of them as it takes to reach the target.
    const std::int64_t each = std::max<std::int64_t>(1, found.mass / found.count);
    state.target = (state.target + each - 1) / each;
  }
  std::array<std::uint64_t, collective::kMaxWorld> tied{};
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    tied[rank] = histograms[rank * stride].count[bucket];
  }
  settle_ties(
      state, shaped_slice(logits, row, options_.tokens), std::span(tied).first(options_.ranks));
}

// state.target tokens at the threshold are kept, the lower ids first.
void Sampler::settle_ties(RowState& state,
                          const kernels::VocabSlice& slice,
                          std::span<const std::uint64_t> tied_by_rank) const {
  std::uint64_t before = 0;
  for (std::uint32_t rank = 0; rank < options_.rank; ++rank) {
    before += tied_by_rank[rank];
  }
  const auto wanted = static_cast<std::uint64_t>(std::max<std::int64_t>(0, state.target));
  const std::uint64_t mine =
      std::min(wanted > before ? wanted - before : 0, tied_by_rank[options_.rank]);
  VocabKeep keep{state.prefix, -1};
  if (mine == tied_by_rank[options_.rank]) {
    keep.last_tied_id = state.prefix == state.keep.floor_key ? state.keep.last_tied_id
                                                             : std::numeric_limits<TokenId>::max();
  } else {
    std::uint64_t left = mine;
    for (std::uint32_t i = 0; i < slice.count && left > 0; ++i) {
      const TokenId id = slice.first_id + static_cast<TokenId>(i);
      const std::uint32_t key = kernels::logit_key(slice.logits[i]);
      if (key == state.prefix && kernels::is_kept(key, id, state.keep)) {
        keep.last_tied_id = id;
        --left;
      }
    }
  }
  state.keep = keep;
}

}  // namespace phalanx::model
