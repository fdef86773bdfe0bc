// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/memory_plan.h"

#include <algorithm>
#include <array>

#include "phalanx/base/bytes_text.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/step/sequence_table.h"
#include "phalanx/tensor/shape.h"

#include "exchange.h"
#include "forward_program.h"
#include "step_inputs.h"

namespace phalanx::model {
namespace {

constexpr std::size_t kPageBytes = 4096;

constexpr std::uint32_t kLeastLength = 2;  // a prompt and an answer

// A context below this is not worth a start that nobody asked to be so small.
constexpr std::uint32_t kLeastDerivedLength = 256;

// Code, stacks, sockets and allocator of one process, about.
constexpr std::size_t kProcessBytes = std::size_t{16} << 20;

Status check_limit(const char* name, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  if (value < least || value > most) {
    return invalid_argument(std::string(name) + ": expected from " + std::to_string(least) +
                            " to " + std::to_string(most) + ", found " + std::to_string(value));
  }
  return ok();
}

// The program, bound to nothing.
Result<ForwardProgram> unbound_program(const checkpoint::ModelConfig& config,
                                       const Shard& shard,
                                       const step::RankLimits& limits) {
  const Units units = units_of(config);
  PHALANX_TRY(const auto attention, collective::TreePlan::make(units.attention, shard.ranks));
  PHALANX_TRY(const auto mlp, collective::TreePlan::make(units.mlp, shard.ranks));
  ForwardInputs inputs;
  inputs.attention_tree = &attention;
  inputs.mlp_tree = &mlp;
  const ForwardShape shape{
      config, shard, limits, layout_of(config), kv_layout(config, shard, limits)};
  return record_forward(shape, inputs);
}

struct Sized {
  std::vector<RankMemory> ranks;
  std::size_t replica = 0;  // bytes of one replica
  std::size_t block = 0;    // bytes of one KV block in one replica
};

Result<Sized> size_replica(const checkpoint::ModelConfig& config,
                           const MemoryRequest& request,
                           const step::RankLimits& limits) {
  Sized sized;
  for (std::uint32_t rank = 0; rank < request.ranks; ++rank) {
    PHALANX_TRY(const Shard shard, plan_shard(config, rank, request.ranks));
    PHALANX_TRY(const RankMemory memory, rank_memory(config, shard, limits, request.threads()));
    sized.replica += memory.total();
    sized.block += kv_block_bytes(config, shard, limits.kv_format);
    sized.ranks.push_back(memory);
  }
  return sized;
}

// Do replicas of `limits` fit beside the weights?
bool fits(const checkpoint::ModelConfig& config,
          const MemoryRequest& request,
          const step::RankLimits& limits) {
  const auto sized = size_replica(config, request, limits);
  return sized.has_value() &&
         layout_of(config).bytes + sized->replica * request.replicas <= request.available_bytes;
}

// The largest value of `field` in [1, current] for which everything fits; 0 = none. With
// `least_blocks` there are only the KV blocks of one sequence of the full length, else those of
// `limits`.
std::uint32_t largest_that_fits(const checkpoint::ModelConfig& config,
                                const MemoryRequest& request,
                                step::RankLimits limits,
                                std::uint32_t step::RankLimits::*field,
                                bool least_blocks) {
  std::uint32_t low = 0;
  std::uint32_t high = limits.*field;
  while (low < high) {
    const std::uint32_t middle = low + (high - low + 1) / 2;
    step::RankLimits candidate = limits;
    candidate.*field = middle;
    if (least_blocks) {
      candidate.kv_blocks = step::blocks_for(candidate.max_model_len);
    }
    if (fits(config, request, candidate)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// What of `request` made its KV blocks, and how much of it makes `blocks`.
std::string kv_setting(const MemoryRequest& request, const Sized& sized, std::uint32_t blocks) {
  return request.kv_memory_bytes > 0
             ? "--kv-cache-memory-bytes " + std::to_string(std::uint64_t{blocks} * sized.block)
             : "--num-kv-blocks " + std::to_string(blocks);
}

// The settings of which one alone, smaller, makes `limits` fit. `sized` is theirs.
std::vector<std::string> smaller_settings(const checkpoint::ModelConfig& config,
                                          const MemoryRequest& request,
                                          const step::RankLimits& limits,
                                          const Sized& sized) {
  struct Setting {
    const char* name;
    std::uint32_t step::RankLimits::*field;
    std::uint32_t least;  // that a server takes beside the others
  };
  const std::array<Setting, 3> settings = {
      {{"--max-model-len", &step::RankLimits::max_model_len, kLeastLength},
       {"--max-num-batched-tokens", &step::RankLimits::max_num_batched_tokens, limits.max_num_seqs},
       {"--max-num-seqs", &step::RankLimits::max_num_seqs, 1}}};
  std::vector<std::string> found;
  if (request.names_kv()) {
    const std::uint32_t largest =
        largest_that_fits(config, request, limits, &step::RankLimits::kv_blocks, false);
    if (largest >= step::blocks_for(limits.max_model_len)) {
      found.push_back(
          kv_setting(request, sized, largest) + " instead of " +
          std::to_string(request.kv_memory_bytes > 0 ? request.kv_memory_bytes : limits.kv_blocks));
    }
  }
  for (const Setting& setting : settings) {
    const std::uint32_t largest =
        largest_that_fits(config, request, limits, setting.field, !request.names_kv());
    if (largest >= setting.least) {
      found.push_back(std::string(setting.name) + " " + std::to_string(largest) + " instead of " +
                      std::to_string(limits.*setting.field));
    }
  }
  return found;
}

Error does_not_fit(const checkpoint::ModelConfig& config,
                   const MemoryRequest& request,
                   const step::RankLimits& limits,
                   const Sized& sized) {
  const std::size_t weights = layout_of(config).bytes;
  std::vector<std::string> found = smaller_settings(config, request, limits, sized);
  if (found.empty() && request.names_kv()) {
    // The blocks that were named and a shorter length together.
    const std::uint32_t length =
        largest_that_fits(config, request, limits, &step::RankLimits::max_model_len, true);
    if (length >= kLeastLength) {
      found.push_back("--max-model-len " + std::to_string(length) + " with " +
                      kv_setting(request, sized, step::blocks_for(length)));
    }
  }
  std::string message = "expected at most " + bytes_text(request.available_bytes) +
                        ", found a need of " +
                        bytes_text(weights + sized.replica * request.replicas);
  for (const std::string& setting : found) {
    message.append(&setting == &found.front() ? "; what fits: " : ", or ").append(setting);
  }
  if (found.empty()) {
    message += "; no single smaller setting fits beside weights of " + bytes_text(weights) +
               ": fewer replicas, a smaller --quantization, or more memory";
  }
  return resource_exhausted(message);
}

}  // namespace

Status check_limits(const checkpoint::ModelConfig& config, const step::RankLimits& limits) {
  PHALANX_RETURN_IF_ERROR(
      check_limit("max_model_len", limits.max_model_len, 1, config.max_position));
  PHALANX_RETURN_IF_ERROR(
      check_limit("max_num_seqs", limits.max_num_seqs, 1, step::kMaxSequencesPerStep));
  PHALANX_RETURN_IF_ERROR(check_limit(
      "max_num_batched_tokens", limits.max_num_batched_tokens, 1, step::kMaxRowsPerStep));
  return check_limit("kv_blocks", limits.kv_blocks, 1, step::kMaxKvBlocks);
}

Result<RankMemory> rank_memory(const checkpoint::ModelConfig& config,
                               const Shard& shard,
                               const step::RankLimits& limits,
                               std::uint32_t threads) {
  PHALANX_RETURN_IF_ERROR(check_limits(config, limits));
  RankMemory memory;
  memory.kv = tensor::round_up(kv_layout(config, shard, limits).bytes(), kPageBytes);
  PHALANX_TRY(const ForwardProgram forward, unbound_program(config, shard, limits));
  memory.scratch = tensor::round_up(forward.program.scratch_bytes(), kPageBytes);
  memory.sequence_table = tensor::round_up(step::SequenceTable::bytes_for(limits), kPageBytes);
  memory.result_ring = tensor::round_up(step::result_ring_bytes(limits.max_num_seqs), kPageBytes);
  if (shard.ranks > 1 && shard.rank == 0) {
    memory.exchange =
        tensor::round_up(exchange_layout(config, limits, shard.ranks).bytes, kPageBytes);
  }
  Sampler::Options sampling;
  sampling.tokens = shard.tokens;
  sampling.rows_max = limits.max_num_seqs;
  sampling.threads = threads;
  memory.heap = StepInputs::heap_bytes(limits) + Sampler::heap_bytes(sampling) +
                limits.max_num_seqs * sizeof(SampledToken) +
                threads * forward.thread_floats * sizeof(float);
  return memory;
}

namespace {

// The length of a sequence that nobody named: the model's own, or what the KV cache that was named,
// or the memory, can hold.
std::uint32_t derived_length(const checkpoint::ModelConfig& config, const MemoryRequest& request) {
  step::RankLimits limits = request.limits;
  limits.max_model_len = std::min(config.max_position, std::uint32_t{step::kMaxPromptTokens});
  if (limits.kv_blocks != 0) {
    const std::uint64_t held = std::uint64_t{limits.kv_blocks} * step::kBlockTokens;
    limits.max_model_len =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(held, limits.max_model_len));
  }
  const std::uint32_t fitting = largest_that_fits(
      config, request, limits, &step::RankLimits::max_model_len, limits.kv_blocks == 0);
  return fitting >= std::min(kLeastDerivedLength, limits.max_model_len) ? fitting
                                                                        : limits.max_model_len;
}

// Of `limits`, whose need is `sized`.
Error beyond_memory(const checkpoint::ModelConfig& config,
                    const MemoryRequest& request,
                    step::RankLimits limits,
                    Sized sized) {
  if (request.limits.max_model_len == 0) {
    // Nobody asked for the model's own length: the others are judged beside the least.
    limits.max_model_len = std::min(limits.max_model_len, kLeastDerivedLength);
    if (!request.names_kv()) {
      limits.kv_blocks = step::blocks_for(limits.max_model_len);
    }
    if (auto least = size_replica(config, request, limits)) {
      sized = *std::move(least);
    }
  }
  return does_not_fit(config, request, limits, sized);
}

// As many KV blocks as the memory that `limits` with the fewest leave has room for, and no more
// than all sequences at their full length use.
std::uint32_t most_blocks(const checkpoint::ModelConfig& config,
                          const MemoryRequest& request,
                          step::RankLimits limits,
                          std::uint64_t room) {
  const std::uint32_t least = limits.kv_blocks;
  const std::uint64_t useful = std::uint64_t{least} * limits.max_num_seqs;
  limits.kv_blocks = static_cast<std::uint32_t>(
      std::min({useful, least + room, std::uint64_t{step::kMaxKvBlocks}}));
  // Rounding to pages may cost the last blocks.
  while (limits.kv_blocks > least && !fits(config, request, limits)) {
    --limits.kv_blocks;
  }
  return limits.kv_blocks;
}

// Blocks that the named bytes pay for, in each replica.
Result<std::uint32_t> blocks_for_bytes(const checkpoint::ModelConfig& config,
                                       const MemoryRequest& request) {
  const std::uint64_t bytes = request.kv_memory_bytes;
  PHALANX_TRY(const std::uint64_t block_bytes,
              replica_block_bytes(config, request.ranks, request.limits.kv_format));
  if (bytes < block_bytes) {
    return invalid_argument("--kv-cache-memory-bytes " + std::to_string(bytes) +
                            " is less than one KV block: expected at least " +
                            std::to_string(block_bytes));
  }
  if (bytes > request.available_bytes / request.replicas) {
    return resource_exhausted("no room for the KV cache: --kv-cache-memory-bytes asks for " +
                              std::to_string(bytes) + " bytes in each of " +
                              std::to_string(request.replicas) + " replicas, " +
                              std::to_string(request.available_bytes) + " are available in all");
  }
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a block has bytes
  const std::uint64_t blocks = bytes / block_bytes;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, step::kMaxKvBlocks));
}

Error too_few_blocks(const MemoryRequest& request, std::uint32_t length, std::uint32_t least) {
  return invalid_argument(
      std::string(request.kv_memory_bytes > 0 ? "blocks of --kv-cache-memory-bytes"
                                              : "--num-kv-blocks") +
      ": expected at least " + std::to_string(least) + " for one sequence of " +
      std::to_string(length) + " tokens, found " + std::to_string(request.limits.kv_blocks) +
      ", which hold a max_model_len of " +
      std::to_string(std::uint64_t{request.limits.kv_blocks} * step::kBlockTokens));
}

}  // namespace

Result<MemoryPlan> plan_memory(const checkpoint::ModelConfig& config, const MemoryRequest& asked) {
  MemoryRequest request = asked;
  if (request.kv_memory_bytes > 0) {
    PHALANX_TRY(request.limits.kv_blocks, blocks_for_bytes(config, request));
  }
  step::RankLimits limits = request.limits;
  if (limits.max_model_len == 0) {
    limits.max_model_len = derived_length(config, request);
  }
  // At the least, one sequence of the full length.
  const std::uint32_t least_blocks = step::blocks_for(limits.max_model_len);
  if (!request.names_kv()) {
    limits.kv_blocks = least_blocks;
  }
  if (limits.kv_blocks < least_blocks) {
    return too_few_blocks(request, limits.max_model_len, least_blocks);
  }
  PHALANX_TRY(Sized sized, size_replica(config, request, limits));
  MemoryPlan plan;
  plan.weights = layout_of(config).bytes;
  plan.total = plan.weights + sized.replica * request.replicas;
  if (plan.total > request.available_bytes) {
    return beyond_memory(config, request, limits, std::move(sized));
  }
  if (!request.names_kv()) {
    const std::uint64_t room =
        (request.available_bytes - plan.total) / (sized.block * request.replicas);
    limits.kv_blocks = most_blocks(config, request, limits, room);
    PHALANX_TRY(sized, size_replica(config, request, limits));
  }
  plan.limits = limits;
  plan.ranks = std::move(sized.ranks);
  plan.total = plan.weights + sized.replica * request.replicas;
  return plan;
}

Result<std::size_t> replica_block_bytes(const checkpoint::ModelConfig& config,
                                        std::uint32_t ranks,
                                        kernels::KvFormat format) {
  std::size_t bytes = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    PHALANX_TRY(const Shard shard, plan_shard(config, rank, ranks));
    bytes += kv_block_bytes(config, shard, format);
  }
  return bytes;
}

std::vector<MemoryPlan::Row> MemoryPlan::rows(std::uint32_t replicas) const {
  RankMemory sum;
  for (const RankMemory& rank : ranks) {
    sum.kv += rank.kv * replicas;
    sum.scratch += rank.scratch * replicas;
    sum.sequence_table += rank.sequence_table * replicas;
    sum.result_ring += rank.result_ring * replicas;
    sum.exchange += rank.exchange * replicas;
    sum.heap += rank.heap * replicas;
  }
  return {{"weights", weights},
          {"kv", sum.kv},
          {"scratch", sum.scratch},
          {"sequence_table", sum.sequence_table},
          {"result_ring", sum.result_ring},
          {"exchange", sum.exchange},
          {"rank_heap", sum.heap},
          {"total", total}};
}

std::size_t memory_to_plan(std::uint64_t available,
                           const checkpoint::ModelConfig& config,
                           const MemoryRequest& request) {
  constexpr double kShare = 0.6;
  const std::uint64_t ours =
      std::min<std::uint64_t>(available, request.processes() * kProcessBytes);
  if (request.names_kv()) {
    return available - ours;
  }
  const std::uint64_t weights = std::min<std::uint64_t>(available - ours, layout_of(config).bytes);
  const auto left = static_cast<double>(available - ours - weights);
  return static_cast<std::size_t>(weights) + static_cast<std::size_t>(left * kShare);
}

}  // namespace phalanx::model
