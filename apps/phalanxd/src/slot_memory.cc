// SPDX-License-Identifier: Apache-2.0
#include "slot_memory.h"

#include <algorithm>

#include "phalanx/model/checkpoint.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/modelfile/model_folder.h"

namespace phalanx::app {

namespace {

constexpr std::size_t kPageBytes = 4096;

// Sizes in the order of the regions. A simulated rank computes nothing, so only its result ring has
// a size of its own.
Result<std::array<std::size_t, 4>> sizes_of(const wire::ModelPlan& plan, std::uint32_t rank) {
  const std::size_t ring = engine::result_ring_bytes(plan.max_num_seqs);
  if (plan.runner == "sim") {
    return std::array<std::size_t, 4>{kPageBytes, kPageBytes, kPageBytes, ring};
  }
  modelfile::ModelFolder folder(plan.model_path);
  PHALANX_TRY(const model::ModelConfig config, model::Checkpoint::read_config(folder));
  PHALANX_TRY(const model::Shard shard, model::plan_shard(config, rank, plan.tp));
  const model::RankLimits limits{
      plan.max_model_len, plan.max_num_seqs, plan.max_num_batched_tokens, plan.kv_blocks};
  PHALANX_TRY(const model::RankMemory bytes,
              model::rank_memory(
                  config, shard, limits, sizeof(wire::SampleResult) * wire::kResultRingSteps));
  return std::array<std::size_t, 4>{bytes.kv, bytes.scratch, bytes.sequence_table, ring};
}

}  // namespace

Result<SlotMemory> SlotMemory::create(const wire::ModelPlan& plan, std::uint32_t rank) {
  PHALANX_TRY(const auto sizes, sizes_of(plan, rank));
  SlotMemory result;
  for (std::size_t i = 0; i < kRegions; ++i) {
    const std::string name = "phalanx-" + result.names_[i] + "-tp" + std::to_string(rank);
    PHALANX_TRY(result.memory_[i], os::Memfd::create(name, std::max(sizes[i], kPageBytes)));
  }
  return result;
}

std::vector<std::pair<std::string, std::uint64_t>> SlotMemory::region_bytes() const {
  std::vector<std::pair<std::string, std::uint64_t>> result;
  for (std::size_t i = 0; i < kRegions; ++i) {
    result.emplace_back(names_[i], memory_[i].size());
  }
  return result;
}

std::vector<int> SlotMemory::fds() const {
  std::vector<int> result;
  for (const os::Memfd& memory : memory_) {
    result.push_back(memory.fd());
  }
  return result;
}

std::uint64_t SlotMemory::total_bytes() const {
  std::uint64_t total = 0;
  for (const os::Memfd& memory : memory_) {
    total += memory.size();
  }
  return total;
}

Result<os::Mapping> SlotMemory::map_results() const {
  return memory_.back().map(os::Access::kReadOnly);
}

}  // namespace phalanx::app
