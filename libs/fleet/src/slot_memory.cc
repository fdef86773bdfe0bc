// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/slot_memory.h"

#include <algorithm>

namespace phalanx::fleet {

namespace {

constexpr std::size_t kPageBytes = 4096;

}  // namespace

Result<SlotMemory> SlotMemory::create(std::uint32_t rank, const SlotSizes& sizes) {
  const std::array<std::size_t, kRegions> bytes = {
      sizes.kv, sizes.scratch, sizes.sequence_table, sizes.result_ring};
  SlotMemory result;
  for (std::size_t i = 0; i < kRegions; ++i) {
    const std::string name = "phalanx-" + result.names_[i] + "-tp" + std::to_string(rank);
    PHALANX_TRY(result.memory_[i], os::Memfd::create(name, std::max(bytes[i], kPageBytes)));
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

}  // namespace phalanx::fleet
