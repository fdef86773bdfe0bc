// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/sequence_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <string>
#include <type_traits>

#include "phalanx/base/check.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"
#include "phalanx/tensor/shape.h"

namespace phalanx::model {
namespace {

static_assert(std::is_trivially_copyable_v<SequenceRow>);
static_assert(sizeof(SequenceRow) % alignof(TokenId) == 0);

std::size_t row_bytes_of(const SequenceTable::Limits& limits) {
  return tensor::round_up(sizeof(SequenceRow) + limits.tokens * sizeof(TokenId),
                          tensor::kRowAlignment);
}

Error out_of_range(const SequenceSpec& spec,
                   const std::string& what,
                   const std::string& expected,
                   const std::string& found) {
  return invalid_argument("sequence " + std::to_string(spec.sequence) + ": " + what +
                          ": expected " + expected + ", found " + found);
}

Status check_ids(const SequenceSpec& spec,
                 const char* what,
                 std::span<const TokenId> ids,
                 std::uint32_t vocab) {
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<std::uint32_t>(id) >= vocab) {
      return out_of_range(
          spec, what, "token ids from 0 to " + std::to_string(vocab - 1), std::to_string(id));
    }
  }
  return ok();
}

Status check_number(const SequenceSpec& spec, const char* what, float value, bool fine) {
  if (!std::isfinite(value) || !fine) {
    return out_of_range(spec, what, "a value within its range", std::to_string(value));
  }
  return ok();
}

Status check_sampling(const SequenceSpec& spec) {
  const step::SamplingNumbers& s = spec.sampling;
  PHALANX_RETURN_IF_ERROR(check_number(spec, "temperature", s.temperature, s.temperature >= 0.0F));
  PHALANX_RETURN_IF_ERROR(check_number(spec, "top_p", s.top_p, s.top_p > 0.0F && s.top_p <= 1.0F));
  PHALANX_RETURN_IF_ERROR(check_number(spec, "min_p", s.min_p, s.min_p >= 0.0F && s.min_p <= 1.0F));
  PHALANX_RETURN_IF_ERROR(
      check_number(spec, "repetition_penalty", s.repetition_penalty, s.repetition_penalty > 0.0F));
  PHALANX_RETURN_IF_ERROR(check_number(spec, "presence_penalty", s.presence_penalty, true));
  PHALANX_RETURN_IF_ERROR(check_number(spec, "frequency_penalty", s.frequency_penalty, true));
  if (s.top_logprobs < -1 || s.top_logprobs > static_cast<std::int32_t>(step::kMaxTopLogprobs)) {
    return out_of_range(spec, "top_logprobs", "-1 … 20", std::to_string(s.top_logprobs));
  }
  return ok();
}

Status check_bias(const SequenceSpec& spec, std::uint32_t vocab) {
  if (spec.logit_bias.size() > step::kMaxLogitBias) {
    return out_of_range(spec,
                        "logit_bias",
                        "at most " + std::to_string(step::kMaxLogitBias) + " entries",
                        std::to_string(spec.logit_bias.size()));
  }
  TokenId before = -1;
  for (const auto& [token, bias] : spec.logit_bias) {
    PHALANX_RETURN_IF_ERROR(check_ids(spec, "logit_bias", {&token, 1}, vocab));
    PHALANX_RETURN_IF_ERROR(check_number(spec, "logit_bias", bias, true));
    if (token <= before) {
      return out_of_range(spec, "logit_bias", "ascending token ids", std::to_string(token));
    }
    before = token;
  }
  return ok();
}

Status check_spec(const SequenceSpec& spec, const SequenceTable::Limits& limits) {
  if (spec.slot >= limits.slots) {
    return out_of_range(
        spec, "slot", "below " + std::to_string(limits.slots), std::to_string(spec.slot));
  }
  if (spec.tokens.empty() || spec.tokens.size() > limits.tokens) {
    return out_of_range(spec,
                        "tokens",
                        "from 1 to " + std::to_string(limits.tokens),
                        std::to_string(spec.tokens.size()));
  }
  if (spec.prompt_tokens > spec.tokens.size()) {
    return out_of_range(spec,
                        "prompt_tokens",
                        "at most " + std::to_string(spec.tokens.size()),
                        std::to_string(spec.prompt_tokens));
  }
  if (spec.masked_until_min_tokens.size() > step::kMaxStopTokens) {
    return out_of_range(spec,
                        "masked_until_min_tokens",
                        "at most " + std::to_string(step::kMaxStopTokens) + " ids",
                        std::to_string(spec.masked_until_min_tokens.size()));
  }
  PHALANX_RETURN_IF_ERROR(check_ids(spec, "tokens", spec.tokens, limits.vocab));
  PHALANX_RETURN_IF_ERROR(
      check_ids(spec, "masked_until_min_tokens", spec.masked_until_min_tokens, limits.vocab));
  PHALANX_RETURN_IF_ERROR(check_bias(spec, limits.vocab));
  return check_sampling(spec);
}

}  // namespace

std::size_t SequenceTable::bytes_for(const Limits& limits) {
  return row_bytes_of(limits) * limits.slots;
}

SequenceTable::SequenceTable(std::byte* data, const Limits& limits)
    : data_(data), limits_(limits), row_bytes_(row_bytes_of(limits)) {}

Result<SequenceTable> SequenceTable::map(std::span<std::byte> memory, const Limits& limits) {
  if (memory.size() < bytes_for(limits) ||
      reinterpret_cast<std::uintptr_t>(memory.data()) % tensor::kRowAlignment != 0) {
    return invalid_argument("sequence table: expected " + std::to_string(bytes_for(limits)) +
                            " aligned bytes, found " + std::to_string(memory.size()));
  }
  SequenceTable table(memory.data(), limits);
  table.clear();
  return table;
}

void SequenceTable::clear() {
  for (std::uint32_t slot = 0; slot < limits_.slots; ++slot) {
    new (data_ + slot * row_bytes_) SequenceRow();
  }
}

SequenceRow& SequenceTable::row(std::uint32_t slot) {
  PHALANX_DCHECK(slot < limits_.slots, "slot out of range");
  return *std::launder(reinterpret_cast<SequenceRow*>(data_ + slot * row_bytes_));
}

const SequenceRow& SequenceTable::row(std::uint32_t slot) const {
  PHALANX_DCHECK(slot < limits_.slots, "slot out of range");
  return *std::launder(reinterpret_cast<const SequenceRow*>(data_ + slot * row_bytes_));
}

std::span<TokenId> SequenceTable::tokens(std::uint32_t slot) {
  PHALANX_DCHECK(slot < limits_.slots, "slot out of range");
  return {reinterpret_cast<TokenId*>(data_ + slot * row_bytes_ + sizeof(SequenceRow)),
          limits_.tokens};
}

std::span<const TokenId> SequenceTable::tokens(std::uint32_t slot) const {
  PHALANX_DCHECK(slot < limits_.slots, "slot out of range");
  return {reinterpret_cast<const TokenId*>(data_ + slot * row_bytes_ + sizeof(SequenceRow)),
          limits_.tokens};
}

Status SequenceTable::add(const SequenceSpec& spec) {
  PHALANX_RETURN_IF_ERROR(check_spec(spec, limits_));
  SequenceRow& row = this->row(spec.slot);
  if (row.live != 0) {
    return failed_precondition("sequence " + std::to_string(spec.sequence) + ": expected slot " +
                               std::to_string(spec.slot) + " to be free, found sequence " +
                               std::to_string(row.sequence));
  }
  row = SequenceRow();
  row.sequence = spec.sequence;
  row.length = static_cast<std::uint32_t>(spec.tokens.size());
  row.prompt_tokens = spec.prompt_tokens;
  row.choice = spec.choice;
  row.sampling = spec.sampling;
  row.bias_count = static_cast<std::uint32_t>(spec.logit_bias.size());
  for (std::size_t i = 0; i < spec.logit_bias.size(); ++i) {
    row.bias_token[i] = spec.logit_bias[i].first;
    row.bias[i] = spec.logit_bias[i].second;
  }
  row.masked_count = static_cast<std::uint32_t>(spec.masked_until_min_tokens.size());
  std::copy(
      spec.masked_until_min_tokens.begin(), spec.masked_until_min_tokens.end(), row.masked.begin());
  std::copy(spec.tokens.begin(), spec.tokens.end(), tokens(spec.slot).begin());
  row.live = 1;
  return ok();
}

Status SequenceTable::remove(std::uint32_t slot) {
  if (slot >= limits_.slots) {
    return invalid_argument("slot: expected below " + std::to_string(limits_.slots) + ", found " +
                            std::to_string(slot));
  }
  row(slot).live = 0;
  return ok();
}

}  // namespace phalanx::model
