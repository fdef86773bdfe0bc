// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/shard_plan.h"

#include <algorithm>
#include <string>

#include "phalanx/collective/summation_tree.h"

namespace phalanx::model {
namespace {

Error too_many(std::uint32_t ranks, std::uint32_t most, const std::string& kind) {
  return invalid_argument("expected at most " + std::to_string(most) + ", the " + kind +
                          " of this model, found " + std::to_string(ranks));
}

}  // namespace

Run run_of(std::uint32_t count, std::uint32_t part, std::uint32_t parts) {
  const collective::LeafRange own = collective::leaf_run(count, part, parts);
  return {own.first, own.count};
}

Units units_of(const checkpoint::ModelConfig& config) {
  Units units;
  units.attention = config.kv_heads;
  units.mlp_blocks = config.intermediate / kMlpBlock;
  units.mlp_step = config.mlp_run_columns() / kMlpBlock;
  units.mlp = std::min(checkpoint::kMlpRuns, units.mlp_blocks);
  units.vocab_blocks = (config.vocab + kVocabBlock - 1) / kVocabBlock;
  return units;
}

Result<Shard> plan_shard(const checkpoint::ModelConfig& config,
                         std::uint32_t rank,
                         std::uint32_t ranks) {
  const Units units = units_of(config);
  if (ranks == 0 || rank >= ranks) {
    return invalid_argument("rank: expected below the number of ranks " + std::to_string(ranks) +
                            ", found " + std::to_string(rank));
  }
  if (ranks > units.attention) {
    return too_many(ranks, units.attention, "KV heads");
  }
  if (ranks > units.mlp) {
    return too_many(ranks, units.mlp, "parts that the MLP (intermediate_size) can be split into");
  }
  if (ranks > units.vocab_blocks) {
    return too_many(ranks, units.vocab_blocks, "blocks of the vocabulary");
  }
  Shard shard;
  shard.rank = rank;
  shard.ranks = ranks;
  shard.attention = run_of(units.attention, rank, ranks);
  shard.mlp = run_of(units.mlp, rank, ranks);
  shard.mlp_blocks.first = units.mlp_blocks_of(shard.mlp.first).first;
  shard.mlp_blocks.count = units.mlp_blocks_of(shard.mlp.end() - 1).end() - shard.mlp_blocks.first;
  shard.vocab = run_of(units.vocab_blocks, rank, ranks);
  shard.tokens.first = shard.vocab.first * kVocabBlock;
  shard.tokens.count = std::min(config.vocab, shard.vocab.end() * kVocabBlock) - shard.tokens.first;
  return shard;
}

}  // namespace phalanx::model
