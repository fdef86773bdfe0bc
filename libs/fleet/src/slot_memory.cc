// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/slot_memory.h"

#include <algorithm>

#include "placed_memory.h"

namespace phalanx::fleet {

namespace {

constexpr std::size_t kExtentBytes = 8 * os::kHugePageBytes;

}  // namespace

Result<SlotMemory> SlotMemory::create(std::uint32_t rank,
                                      const SlotSizes& sizes,
                                      const os::NodeList& nodes) {
  const std::array<std::size_t, kRegions> bytes = {
      sizes.kv, sizes.scratch, sizes.sequence_table, sizes.result_ring};
  SlotMemory result;
  result.kv_blocks_ = sizes.kv_blocks;
  result.kv_block_bytes_ = sizes.kv_block;
  for (std::size_t i = 0; i < kRegions; ++i) {
    const std::string name =
        "phalanx-" + std::string(kRegionNames[i]) + "-tp" + std::to_string(rank);
    PHALANX_TRY(result.memory_[i], os::Memfd::reserve(name, std::max(bytes[i], kLeastBytes)));
    place(result.memory_[i], name, nodes);
  }
  for (const Region region : {kScratch, kSequenceTable, kResultRing}) {
    const os::Memfd& memory = result.memory_[region];
    PHALANX_RETURN_IF_ERROR(memory.back(0, memory.size()));
  }
  return result;
}

std::vector<std::pair<std::string, std::uint64_t>> SlotMemory::region_bytes() const {
  std::vector<std::pair<std::string, std::uint64_t>> result;
  for (std::size_t i = 0; i < kRegions; ++i) {
    result.emplace_back(kRegionNames[i], memory_[i].size());
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
  return memory_[kResultRing].map(os::Access::kReadOnly);
}

std::uint32_t SlotMemory::kv_blocks_backed() const {
  if (kv_block_bytes_ == 0) {
    return kv_blocks_;
  }
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(kv_backed_ / kv_block_bytes_, kv_blocks_));
}

Status SlotMemory::back_kv() {
  const os::Memfd& kv = memory_[kKv];
  const std::size_t bytes = std::min(kExtentBytes, kv.size() - kv_backed_);
  PHALANX_RETURN_IF_ERROR(kv.back(kv_backed_, bytes));
  kv_backed_ += bytes;
  return ok();
}

}  // namespace phalanx::fleet
