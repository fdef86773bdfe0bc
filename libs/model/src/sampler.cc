// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "phalanx/step/sampling.h"

#include "sampler_bounds.h"

namespace phalanx::model {
namespace {

using kernels::VocabCandidate;
using kernels::VocabPeak;
using kernels::VocabSlice;

constexpr float kBanned = -std::numeric_limits<float>::infinity();
constexpr std::uint32_t kSeenBit = 1U << 31;

bool has_penalties(const step::SamplingNumbers& sampling) {
  return sampling.repetition_penalty != 1.0F || sampling.presence_penalty != 0.0F ||
         sampling.frequency_penalty != 0.0F;
}

bool masks(const step::SequenceRow& sequence, std::uint32_t position) {
  return sequence.masked_count != 0 &&
         position - sequence.prompt_tokens < sequence.sampling.min_tokens;
}

bool is_greedy(const step::SamplingNumbers& sampling) {
  return sampling.temperature < step::kGreedyTemperature;
}

}  // namespace

Sampler::Sampler(const Options& options, const step::SequenceTable& table)
    : options_(options),
      table_(table),
      states_(options.rows_max),
      drawing_(options.rows_max),
      counts_(std::size_t{options.threads} * options.tokens.count) {
  for (auto& rows : selecting_) {
    rows.resize(options.rows_max);
  }
}

std::size_t Sampler::heap_bytes(const Options& options) {
  return options.rows_max * (sizeof(RowState) + 3 * sizeof(std::uint32_t)) +
         std::size_t{options.threads} * options.tokens.count * sizeof(std::uint32_t);
}

void Sampler::begin(std::span<const SampleRow> rows) {
  row_count_ = static_cast<std::uint32_t>(rows.size());
  selecting_count_ = {};
  drawing_count_ = 0;
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
      state.draw_index = static_cast<std::int32_t>(drawing_count_);
      drawing_[drawing_count_++] = row;
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

VocabSlice Sampler::slice(const float* logits, std::uint32_t row) const {
  return {logits + row * options_.logits_stride,
          options_.tokens.count,
          static_cast<TokenId>(options_.tokens.first)};
}

VocabSlice Sampler::shaped_slice(const LogitBuffers& logits, std::uint32_t row) const {
  return slice(states_[row].is_shaped ? logits.shaped : logits.raw, row);
}

bool Sampler::is_local(TokenId token) const {
  const auto id = static_cast<std::uint32_t>(token);
  return id >= options_.tokens.first && id < options_.tokens.end();
}

void Sampler::count_history(const RowState& state, std::span<std::uint32_t> counts) const {
  const std::span<const TokenId> tokens = table_.tokens(state.row.slot);
  const std::uint32_t prompt = sequence(state).prompt_tokens;
  for (std::uint32_t i = 0; i < state.row.position; ++i) {
    if (is_local(tokens[i])) {
      std::uint32_t& count = counts[static_cast<std::uint32_t>(tokens[i]) - options_.tokens.first];
      count = (count + (i >= prompt ? 1U : 0U)) | kSeenBit;
    }
  }
}

void Sampler::apply_penalties(const RowState& state,
                              const float* logits,
                              float* shaped,
                              std::uint32_t thread) {
  const step::SequenceRow& row = sequence(state);
  const step::SamplingNumbers& sampling = row.sampling;
  const kernels::TokenPenalty penalty{
      sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty};
  const std::span<std::uint32_t> counts = std::span(counts_).subspan(
      std::size_t{thread} * options_.tokens.count, options_.tokens.count);
  if (has_penalties(sampling)) {
    count_history(state, counts);
  }
  const auto apply = [&](TokenId token, float bias) {
    const std::uint32_t index = static_cast<std::uint32_t>(token) - options_.tokens.first;
    shaped[index] = kernels::penalised_logit(
        logits[index], penalty, (counts[index] & kSeenBit) != 0, counts[index] & ~kSeenBit, bias);
    counts[index] = 0;
  };
  for (std::uint32_t i = 0; i < row.bias_count; ++i) {
    if (is_local(row.bias[i].token)) {
      apply(row.bias[i].token, row.bias[i].bias);
    }
  }
  if (!has_penalties(sampling)) {
    return;
  }
  // A token leaves with its count: each is changed once, and the counts end as they began.
  const std::span<const TokenId> tokens = table_.tokens(state.row.slot);
  for (std::uint32_t i = 0; i < state.row.position; ++i) {
    if (is_local(tokens[i]) &&
        counts[static_cast<std::uint32_t>(tokens[i]) - options_.tokens.first] != 0) {
      apply(tokens[i], 0.0F);
    }
  }
}

void Sampler::ban_masked(const RowState& state, float* logits) const {
  const step::SequenceRow& sequence = this->sequence(state);
  if (!masks(sequence, state.row.position)) {
    return;
  }
  for (std::uint32_t i = 0; i < sequence.masked_count; ++i) {
    if (is_local(sequence.masked[i])) {
      logits[static_cast<std::uint32_t>(sequence.masked[i]) - options_.tokens.first] = kBanned;
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
    apply_penalties(state, raw.logits, out, thread);
    ban_masked(state, out);
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
                    std::uint32_t row,
                    std::uint32_t thread) {
  const RowState& state = states_[row];
  const step::SequenceRow& sequence = this->sequence(state);
  const VocabSlice raw = slice(logits, row);
  PeakRecord& record = own[row];
  record = PeakRecord();
  kernels.vocab_max(raw, &record.raw);
  record.shaped = record.raw;
  if ((row + std::size_t{1}) * raw.count <= raw_copy_.size()) {
    std::copy_n(raw.logits, raw.count, raw_copy_.begin() + std::ptrdiff_t{row} * raw.count);
  }
  if (state.is_shaped) {
    shape_row(kernels, state, raw, shaped + row * options_.logits_stride, thread);
    kernels.vocab_max(slice(shaped, row), &record.shaped);
  }
  if (is_local(record.shaped.id)) {
    record.shaped_raw =
        raw.logits[static_cast<std::uint32_t>(record.shaped.id) - options_.tokens.first];
  }
  if (sequence.sampling.top_logprobs > 0) {
    const auto most = static_cast<std::size_t>(sequence.sampling.top_logprobs);
    record.top_count =
        static_cast<std::uint32_t>(top_of(kernels, raw, std::span(record.top).first(most)));
  }
}

void Sampler::peak(const PeakRecord* all, std::uint32_t row) {
  RowState& state = states_[row];
  const auto most = static_cast<std::uint32_t>(std::max(0, sequence(state).sampling.top_logprobs));
  state.raw = all[row].raw;
  state.shaped = all[row].shaped;
  state.shaped_raw = all[row].shaped_raw;
  state.top_count =
      merge_top(state.top, 0, std::span(all[row].top).first(all[row].top_count), most);
  for (std::uint32_t rank = 1; rank < options_.ranks; ++rank) {
    const PeakRecord& record = all[std::size_t{rank} * row_count_ + row];
    state.raw = VocabPeak::merge(state.raw, record.raw);
    state.shaped = VocabPeak::merge(state.shaped, record.shaped);
    if (state.shaped.id == record.shaped.id) {
      state.shaped_raw = record.shaped_raw;
    }
    state.top_count =
        merge_top(state.top, state.top_count, std::span(record.top).first(record.top_count), most);
  }
  if (!state.raw.finite) {
    state.fault = RowFault::kLogits;
  } else if (!state.shaped.finite || state.shaped.value == kBanned) {
    state.fault = RowFault::kSampling;
  } else {
    state.fault = RowFault::kNone;
  }
}

void Sampler::draw(const kernels::KernelTable& kernels,
                   const LogitBuffers& logits,
                   DrawRecord* own,
                   std::uint32_t index) {
  const std::uint32_t row = drawing_[index];
  RowState& state = states_[row];
  DrawRecord& record = own[index];
  record = DrawRecord();
  if (state.fault != RowFault::kNone) {
    return;
  }
  const step::SequenceRow& sequence = this->sequence(state);
  const VocabSlice raw = slice(logits.raw, row);
  if (state.wants_logprobs) {
    record.raw_mass = kernels.vocab_mass(raw, {}, state.raw.value);
  }
  if (state.is_greedy) {
    return;
  }
  if (sequence.sampling.min_p > 0.0F) {
    state.keep =
        raised(state.keep, kernels::min_p_floor(state.shaped.value, sequence.sampling.min_p));
  }
  const kernels::VocabKeep may_win = raised(state.keep, kernels::noise_floor(state.shaped.value));
  const kernels::GumbelKey key{sequence.sampling.seed, sequence.choice, state.row.position};
  kernels.gumbel_max(shaped_slice(logits, row), may_win, key, &record.peak);
  if (record.peak.id >= 0) {
    record.raw = raw.logits[static_cast<std::uint32_t>(record.peak.id) - options_.tokens.first];
  }
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
  best.peak = state.shaped;
  best.raw = state.shaped_raw;
  if (state.draw_index >= 0) {
    const auto index = static_cast<std::size_t>(state.draw_index);
    VocabPeak peak = all[index].peak;
    float raw = all[index].raw;
    std::int64_t mass = all[index].raw_mass;
    for (std::uint32_t rank = 1; rank < options_.ranks; ++rank) {
      const DrawRecord& record = all[std::size_t{rank} * drawing_count_ + index];
      peak = VocabPeak::merge(peak, record.peak);
      raw = peak.id == record.peak.id ? record.raw : raw;
      mass += record.raw_mass;
    }
    if (!state.is_greedy) {
      best = {peak, raw, 0};
    }
    best.raw_mass = mass;
  }
  if (best.peak.id < 0) {
    return;
  }
  result.token = best.peak.id;
  if (state.wants_logprobs) {
    result.logprob = kernels::log_softmax(best.raw, state.raw.value, best.raw_mass);
    result.top_count = state.top_count;
    for (std::uint32_t i = 0; i < state.top_count; ++i) {
      result.top[i] = {state.top[i].id,
                       kernels::log_softmax(state.top[i].logit, state.raw.value, best.raw_mass)};
    }
  }
}

}  // namespace phalanx::model
