// SPDX-License-Identifier: Apache-2.0
#include "submit_check.h"

#include <algorithm>
#include <span>
#include <string>

#include "phalanx/step/limits.h"

namespace phalanx::engine {
namespace {

Status check_at_least(const char* name, std::uint32_t value, std::uint32_t least) {
  if (value >= least) {
    return ok();
  }
  return invalid_argument(std::string(name) + " must be at least " + std::to_string(least) +
                          ", is " + std::to_string(value));
}

Status check_ids(const char* what, std::span<const TokenId> ids, std::uint32_t vocab_size) {
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<std::uint32_t>(id) >= vocab_size) {
      return invalid_argument(std::string(what) + " holds token " + std::to_string(id) +
                              "; ids go from 0 to " + std::to_string(vocab_size - 1));
    }
  }
  return ok();
}

}  // namespace

Status validate(const SchedulerOptions& options) {
  PHALANX_RETURN_IF_ERROR(check_at_least("max_model_len", options.limits.max_model_len, 2));
  PHALANX_RETURN_IF_ERROR(check_at_least("max_num_seqs", options.limits.max_num_seqs, 1));
  PHALANX_RETURN_IF_ERROR(check_at_least("kv_blocks", options.limits.kv_blocks, 1));
  PHALANX_RETURN_IF_ERROR(check_at_least("max_waiting", options.max_waiting, 1));
  PHALANX_RETURN_IF_ERROR(check_at_least("vocab_size", options.vocab_size, 1));
  if (options.limits.max_model_len > step::kMaxPromptTokens) {
    return invalid_argument("max_model_len must be at most " +
                            std::to_string(step::kMaxPromptTokens) + ", is " +
                            std::to_string(options.limits.max_model_len));
  }
  if (options.limits.max_num_seqs > step::kMaxSequencesPerStep) {
    return invalid_argument("max_num_seqs must be at most " +
                            std::to_string(step::kMaxSequencesPerStep) + ", is " +
                            std::to_string(options.limits.max_num_seqs));
  }
  // Otherwise a step could not give every running sequence its token.
  PHALANX_RETURN_IF_ERROR(check_at_least("max_num_batched_tokens",
                                         options.limits.max_num_batched_tokens,
                                         options.limits.max_num_seqs));
  return ok();
}

std::uint32_t token_limit(const SchedulerOptions& options, const wire::Submit& submit) {
  const std::uint64_t wanted = submit.prompt_ids.size() + std::uint64_t{submit.stop.max_tokens};
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, options.limits.max_model_len));
}

Status check_submit(const SchedulerOptions& options, const wire::Submit& submit) {
  const std::size_t length = submit.prompt_ids.size() + submit.produced_ids.size();
  if (submit.prompt_ids.empty()) {
    return invalid_argument("the prompt is empty; it needs at least one token");
  }
  if (submit.prompt_ids.size() >= options.limits.max_model_len) {
    return invalid_argument("the prompt has " + std::to_string(submit.prompt_ids.size()) +
                            " tokens; max_model_len " +
                            std::to_string(options.limits.max_model_len) + " leaves room for " +
                            std::to_string(options.limits.max_model_len - 1));
  }
  if (submit.stop.max_tokens == 0) {
    return invalid_argument("max_tokens must be at least 1, is 0");
  }
  const std::uint32_t limit = token_limit(options, submit);
  if (length > limit) {
    return invalid_argument("prompt and produced tokens are " + std::to_string(length) +
                            "; the sequence may reach " + std::to_string(limit));
  }
  // The newest token of a sequence never needs KV.
  if (step::blocks_for(limit - 1) > options.limits.kv_blocks) {
    return invalid_argument("the sequence may reach " + std::to_string(limit) + " tokens, " +
                            std::to_string(step::blocks_for(limit - 1)) + " KV blocks; there are " +
                            std::to_string(options.limits.kv_blocks));
  }
  PHALANX_RETURN_IF_ERROR(check_ids("the prompt", submit.prompt_ids, options.vocab_size));
  PHALANX_RETURN_IF_ERROR(check_ids("the history", submit.produced_ids, options.vocab_size));
  PHALANX_RETURN_IF_ERROR(
      check_ids("stop_token_ids", submit.stop.stop_token_ids, options.vocab_size));
  for (const auto& [id, bias] : submit.sampling.logit_bias) {
    PHALANX_RETURN_IF_ERROR(check_ids("logit_bias", {&id, 1}, options.vocab_size));
  }
  return ok();
}

}  // namespace phalanx::engine
