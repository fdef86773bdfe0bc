// SPDX-License-Identifier: Apache-2.0
// A model in this process that reads texts, whatever it would have gone on with itself, and tells
// the logits of every position.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/kernels/isa.h"
#include "phalanx/kernels/thread_team.h"
#include "phalanx/step/limits.h"

#include "engine_weights.h"

namespace phalanx::bench {

// What a model needs to read `sequences` texts of up to `tokens` at once.
[[nodiscard]] step::RankLimits limits_of_texts(std::uint32_t sequences,
                                               std::uint32_t tokens,
                                               step::KvFormat kv_format);

// The program of one rank with memory of its own. A step computes one position of each text: its
// logits are those of a prefill in chunks of any size, because no result of the engine depends on
// what else is in a step (docs/arithmetic.md).
//
// Ownership: borrows arena and team.
// Threads: one at a time, the thread that made the team.
class ForcedModel {
 public:
  // `limits` as limits_of_texts() gives them.
  //
  // Errors: those of model::rank_memory(), model::RankModel::create() and of what they need
  [[nodiscard]] static Result<std::unique_ptr<ForcedModel>> create(const Arena& arena,
                                                                   const step::RankLimits& limits,
                                                                   kernels::Isa isa,
                                                                   kernels::ThreadTeam& team);
  ForcedModel(const ForcedModel&) = delete;
  ForcedModel& operator=(const ForcedModel&) = delete;
  ~ForcedModel();

  // Computes `position` of each of `texts` that is longer, and returns its logits: a row of the
  // vocabulary for each of them, in their order, valid until the next call. Position 0 begins anew;
  // every other one follows the one before it, of the same texts.
  //
  // Errors: kDataLoss  a logit is not finite
  //         those of step::SequenceTable and model::RankModel::step()
  [[nodiscard]] Result<std::span<const float>> step(std::span<const std::span<const TokenId>> texts,
                                                    std::uint32_t position);

 private:
  struct Impl;
  explicit ForcedModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace phalanx::bench
