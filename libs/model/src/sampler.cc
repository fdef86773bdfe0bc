// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "phalanx/step/sampling.h"

#include "sampler_bounds.h"

namespace phalanx::model {
namespace {

using kernels::VocabPeak;
using kernels::VocabSlice;

constexpr float kBanned = -std::numeric_limits<float>::infinity();
constexpr std::uint32_t kSeenBit = 1U << 31;

std::uint32_t index_in(const VocabSlice& slice, TokenId token) {
  return static_cast<std::uint32_t>(token - slice.first_id);
}

bool has_penalties(const step::SamplingNumbers& sampling) {
  return sampling.repetition_penalty != 1.0F || sampling.presence_penalty != 0.0F ||
         sampling.frequency_penalty != 0.0F;
}

bool masks(const step::SequenceRow& sequence, std::uint32_t position) {
  return sequence.masked_count != 0 &&
         position - sequence.prompt_tokens < sequence.sampling.min_tokens;
}

bool is_in(const VocabSlice& slice, TokenId token) {
  return token >= slice.first_id && index_in(slice, token) < slice.count;
}

bool is_greedy(const step::SamplingNumbers& sampling) {
  return sampling.temperature < step::kGreedyTemperature;
}

std::uint32_t list_tokens(const Sampler::Options& options) {
  return std::min(options.list_tokens_most, options.tokens.count);
}

}  // namespace

Sampler::Sampler(const Options& options, const step::SequenceTable& table)
    : options_(options),
      table_(table),
      divided_(options.tokens, options.threads, options.part_tokens_least, options.rows_max),
      peak_parts_(2 * std::size_t{options.threads}),
      histogram_parts_(peak_parts_.size()),
      draw_parts_(peak_parts_.size()),
      candidates_(list_tokens(options), options.threads, options.rows_max),
      states_(options.rows_max),
      drawn_(options.rows_max),
      counts_(std::size_t{options.threads} * options.tokens.count) {
  for (auto& rows : selecting_) {
    rows.resize(options.rows_max);
  }
}

std::size_t Sampler::heap_bytes(const Options& options) {
  const std::size_t part =
      sizeof(PeakRecord) + sizeof(kernels::VocabHistogram) + sizeof(DrawRecord);
  return options.rows_max * (sizeof(RowState) + 4 * sizeof(std::uint32_t)) +
         CandidateLists::heap_bytes(list_tokens(options), options.threads, options.rows_max) +
         std::size_t{options.threads} * (options.tokens.count * sizeof(std::uint32_t) + 2 * part);
}

void Sampler::begin(std::span<const SampleRow> rows) {
  row_count_ = static_cast<std::uint32_t>(rows.size());
  divided_.begin();
  candidates_.begin();
  selecting_count_ = {};
  drawn_count_ = 0;
  for (std::uint32_t row = 0; row < row_count_; ++row) {
    RowState& state = states_[row];
    state = RowState();
    state.row = rows[row];
    const step::SequenceRow& sequence = table_.row(state.row.slot);
    const step::SamplingNumbers& sampling = sequence.sampling;
    state.is_greedy = is_greedy(sampling);
    state.wants_logprobs = sampling.top_logprobs >= 0;
    state.is_shaped = has_penalties(sampling) || sequence.bias_count != 0 ||
                      masks(sequence, state.row.position) ||
                      (!state.is_greedy && sampling.temperature != 1.0F);
    const auto vocab = static_cast<std::int64_t>(table_.vocab());
    const auto join = [&](Selection selection) {
      const auto index = static_cast<std::size_t>(selection);
      selecting_[index][selecting_count_[index]++] = row;
    };
    if (!state.is_greedy && sampling.top_k > 0 && sampling.top_k < vocab) {
      join(Selection::kTopK);
    }
    if (!state.is_greedy && sampling.top_p < 1.0F) {
      join(Selection::kTopP);
    }
    if (!state.is_greedy || state.wants_logprobs) {
      state.draw_index = static_cast<std::int32_t>(drawn_count_);
      drawn_[drawn_count_++] = row;
    }
  }
}

std::uint32_t Sampler::selecting(Selection selection) const {
  return selecting_count_[static_cast<std::size_t>(selection)];
}

std::uint32_t Sampler::row_of(Selection selection, std::uint32_t index) const {
  return selecting_[static_cast<std::size_t>(selection)][index];
}

const step::SequenceRow& Sampler::sequence(const RowState& state) const {
  return table_.row(state.row.slot);
}

VocabSlice Sampler::slice(const float* logits, std::uint32_t row, const Run& tokens) const {
  return {logits + row * options_.logits_stride + (tokens.first - options_.tokens.first),
          tokens.count,
          static_cast<TokenId>(tokens.first)};
}

VocabSlice Sampler::shaped_slice(const LogitBuffers& logits,
                                 std::uint32_t row,
                                 const Run& tokens) const {
  return slice(states_[row].is_shaped ? logits.shaped : logits.raw, row, tokens);
}

std::uint32_t Sampler::top_logprobs(const RowState& state) const {
  return static_cast<std::uint32_t>(std::max(0, sequence(state).sampling.top_logprobs));
}

// Anew in each step, of the whole history: 9 ns for each of its tokens, of which attention reads
// kilobytes. Counts that are kept would be memory for each slot that a rank which attaches fills
// again, and what they change would still be as many logits.
void Sampler::count_history(const RowState& state,
                            const VocabSlice& raw,
                            std::span<std::uint32_t> counts) const {
  const std::span<const TokenId> tokens = table_.tokens(state.row.slot);
  const std::uint32_t prompt = sequence(state).prompt_tokens;
  for (std::uint32_t i = 0; i < state.row.position; ++i) {
    if (is_in(raw, tokens[i])) {
      std::uint32_t& count = counts[index_in(raw, tokens[i])];
      count = (count + (i >= prompt ? 1U : 0U)) | kSeenBit;
    }
  }
}

void Sampler::apply_penalties(const RowState& state,
                              const VocabSlice& raw,
                              float* shaped,
                              std::uint32_t thread) {
  const step::SequenceRow& row = sequence(state);
  const step::SamplingNumbers& sampling = row.sampling;
  const kernels::TokenPenalty penalty{
      sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty};
  const std::span<std::uint32_t> counts = std::span(counts_).subspan(
      std::size_t{thread} * options_.tokens.count, options_.tokens.count);
  if (has_penalties(sampling)) {
    count_history(state, raw, counts);
  }
  const auto apply = [&](TokenId token, float bias) {
    const std::uint32_t index = index_in(raw, token);
    shaped[index] = kernels::penalised_logit(raw.logits[index],
                                             penalty,
                                             (counts[index] & kSeenBit) != 0,
                                             counts[index] & ~kSeenBit,
                                             bias);
    counts[index] = 0;
  };
  for (std::uint32_t i = 0; i < row.bias_count; ++i) {
    if (is_in(raw, row.bias[i].token)) {
      apply(row.bias[i].token, row.bias[i].bias);
    }
  }
  if (!has_penalties(sampling)) {
    return;
  }
  // A token leaves with its count: each is changed once, and the counts end as they began.
  const std::span<const TokenId> tokens = table_.tokens(state.row.slot);
  for (std::uint32_t i = 0; i < state.row.position; ++i) {
    if (is_in(raw, tokens[i]) && counts[index_in(raw, tokens[i])] != 0) {
      apply(tokens[i], 0.0F);
    }
  }
}

void Sampler::ban_masked(const RowState& state, const VocabSlice& raw, float* logits) const {
  const step::SequenceRow& sequence = this->sequence(state);
  if (!masks(sequence, state.row.position)) {
    return;
  }
  for (std::uint32_t i = 0; i < sequence.masked_count; ++i) {
    if (is_in(raw, sequence.masked[i])) {
      logits[index_in(raw, sequence.masked[i])] = kBanned;
    }
  }
}

void Sampler::shape_row(const kernels::KernelTable& kernels,
                        const RowState& state,
                        const VocabSlice& raw,
                        float* out,
                        std::uint32_t thread) {
  const step::SequenceRow& sequence = this->sequence(state);
  const float* logits = raw.logits;
  if (has_penalties(sequence.sampling) || sequence.bias_count != 0 ||
      masks(sequence, state.row.position)) {
    std::copy_n(raw.logits, raw.count, out);
    apply_penalties(state, raw, out, thread);
    ban_masked(state, raw, out);
    logits = out;
  }
  if (!state.is_greedy && sequence.sampling.temperature != 1.0F) {
    kernels.divide_by_temperature(logits, out, raw.count, sequence.sampling.temperature);
  }
}

void Sampler::shape(const kernels::KernelTable& kernels,
                    const float* logits,
                    float* shaped,
                    PeakRecord* own,
                    std::uint32_t tile,
                    std::uint32_t thread) {
  const RowPart part = divided_.part(row_count_, tile);
  const RowState& state = states_[part.row];
  const VocabSlice raw = slice(logits, part.row, part.tokens);
  PeakRecord record;
  kernels.vocab_max(raw, &record.raw);
  record.shaped = record.raw;
  const std::size_t row_begin = std::size_t{part.row} * options_.tokens.count;
  if (row_begin + options_.tokens.count <= raw_copy_.size()) {
    const std::size_t begin = row_begin + part.tokens.first - options_.tokens.first;
    std::copy_n(raw.logits, raw.count, raw_copy_.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  if (state.is_shaped) {
    const std::ptrdiff_t at = raw.logits - logits;
    shape_row(kernels, state, raw, shaped + at, thread);
    kernels.vocab_max(slice(shaped, part.row, part.tokens), &record.shaped);
  }
  if (is_in(raw, record.shaped.id)) {
    record.shaped_raw = raw.logits[index_in(raw, record.shaped.id)];
  }
  const std::uint32_t most = top_logprobs(state);
  if (most > 0) {
    record.top_count =
        static_cast<std::uint32_t>(top_of(kernels, raw, std::span(record.top).first(most)));
  }
  divided_.merge(part, record, peak_parts_, own, [&](PeakRecord* row, const PeakRecord& next) {
    row->add(next, most);
  });
}

void PeakRecord::add(const PeakRecord& next, std::uint32_t most) {
  raw = VocabPeak::merge(raw, next.raw);
  shaped = VocabPeak::merge(shaped, next.shaped);
  if (shaped.id == next.shaped.id) {
    shaped_raw = next.shaped_raw;
  }
  top_count = merge_top(top, top_count, std::span(next.top).first(next.top_count), most);
}

void Sampler::peak(const PeakRecord* all, std::uint32_t row) {
  RowState& state = states_[row];
  state.peak = all[row];
  for (std::uint32_t rank = 1; rank < options_.ranks; ++rank) {
    state.peak.add(all[std::size_t{rank} * row_count_ + row], top_logprobs(state));
  }
  if (!state.peak.raw.finite) {
    state.fault = RowFault::kLogits;
  } else if (!state.peak.shaped.finite || state.peak.shaped.value == kBanned) {
    state.fault = RowFault::kSampling;
  } else {
    state.fault = RowFault::kNone;
  }
}

void Sampler::draw(const kernels::KernelTable& kernels,
                   const LogitBuffers& logits,
                   DrawRecord* own,
                   std::uint32_t tile) {
  const RowPart part = divided_.part(drawn_count_, tile);
  DrawRecord record;
  draw_part(kernels, logits, part, &record);
  divided_.merge(part, record, draw_parts_, own, [](DrawRecord* row, const DrawRecord& next) {
    row->add(next);
  });
}

void Sampler::draw_part(const kernels::KernelTable& kernels,
                        const LogitBuffers& logits,
                        const RowPart& part,
                        DrawRecord* record) {
  const std::uint32_t row = drawn_[part.row];
  const RowState& state = states_[row];
  if (state.fault != RowFault::kNone) {
    return;
  }
  const step::SequenceRow& sequence = this->sequence(state);
  const VocabSlice raw = slice(logits.raw, row, part.tokens);
  if (state.wants_logprobs) {
    record->raw_mass = kernels.vocab_mass(raw, {}, state.peak.raw.value);
  }
  if (state.is_greedy) {
    return;
  }
  const float largest = state.peak.shaped.value;
  kernels::VocabKeep may_win = raised(state.keep, kernels::noise_floor(largest));
  if (sequence.sampling.min_p > 0.0F) {
    may_win = raised(may_win, kernels::min_p_floor(largest, sequence.sampling.min_p));
  }
  const kernels::GumbelKey key{sequence.sampling.seed, sequence.choice, state.row.position};
  const Candidates& candidates = candidates_.of(row, part);
  if (candidates.is_listed) {
    kernels.gumbel_max_of_list(candidates.list, may_win, key, &record->peak);
  } else {
    kernels.gumbel_max(shaped_slice(logits, row, part.tokens), may_win, key, &record->peak);
  }
  if (record->peak.id >= 0) {
    record->raw = raw.logits[index_in(raw, record->peak.id)];
  }
}

void DrawRecord::add(const DrawRecord& next) {
  peak = VocabPeak::merge(peak, next.peak);
  if (peak.id == next.peak.id) {
    raw = next.raw;
  }
  raw_mass += next.raw_mass;
}

void Sampler::finish(const DrawRecord* all, SampledToken* results, std::uint32_t row) {
  RowState& state = states_[row];
  SampledToken& result = results[state.row.item];
  result = SampledToken();
  result.fault = state.fault;
  if (state.fault != RowFault::kNone) {
    return;
  }
  DrawRecord best;
  if (state.draw_index >= 0) {
    const auto index = static_cast<std::size_t>(state.draw_index);
    best = all[index];
    for (std::uint32_t rank = 1; rank < options_.ranks; ++rank) {
      best.add(all[std::size_t{rank} * drawn_count_ + index]);
    }
  }
  if (state.is_greedy) {
    best.peak = state.peak.shaped;
    best.raw = state.peak.shaped_raw;
  }
  if (best.peak.id < 0) {
    return;
  }
  result.token = best.peak.id;
  if (state.wants_logprobs) {
    const float largest = state.peak.raw.value;
    result.logprob = kernels::log_softmax(best.raw, largest, best.raw_mass);
    result.top_count = state.peak.top_count;
    for (std::uint32_t i = 0; i < result.top_count; ++i) {
      const kernels::VocabCandidate& candidate = state.peak.top[i];
      result.top[i] = {candidate.id, kernels::log_softmax(candidate.logit, largest, best.raw_mass)};
    }
  }
}

}  // namespace phalanx::model
