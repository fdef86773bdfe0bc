// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/os/cpu_topology.h"
#include "phalanx/os/memfd.h"

namespace phalanx::fleet {

// What a rank maps besides the weights, in the order in which a RankBootstrap names it and carries
// its descriptors: the regions of its slot, and the exchange of its group.
enum Region : std::size_t { kKv, kScratch, kSequenceTable, kResultRing, kExchange };
inline constexpr std::array<std::string_view, 5> kRegionNames = {
    "kv", "scratch", "sequence-table", "result-ring", "exchange"};

// Bytes of each region of a rank slot; none is smaller than a page. The KV has kv_blocks blocks of
// kv_block bytes, the first at its beginning; kv_block 0: a simulated rank has no KV.
struct SlotSizes {
  std::size_t kv = 0;
  std::size_t kv_block = 0;
  std::uint32_t kv_blocks = 0;
  std::size_t scratch = 0;
  std::size_t sequence_table = 0;
  std::size_t result_ring = 0;
  std::size_t exchange = 0;  // of all slots together, named by the first
};

// The memory of one rank slot: KV, scratch, sequence table and result ring. The replica makes it at
// start and keeps it, so that it outlives every rank that works over it: a successor finds the KV
// where its predecessor left it.
class SlotMemory {
 public:
  static constexpr std::size_t kLeastBytes = 4096;  // of a region

  // The KV is address space until back_kv(); the rest has its memory now: a lack of it is a failed
  // start. All of it is to lie on `nodes`, as os::place_on_nodes() has it; where the kernel does
  // not let it, that is logged.
  //
  // Errors: kResourceExhausted.
  [[nodiscard]] static Result<SlotMemory> create(std::uint32_t rank,
                                                 const SlotSizes& sizes,
                                                 const os::NodeList& nodes);

  // Name and size of each region, in the order of the descriptors of a RankBootstrap.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> region_bytes() const;
  [[nodiscard]] std::vector<int> fds() const;
  [[nodiscard]] std::uint64_t total_bytes() const;

  // The result ring, mapped for reading by the replica.
  [[nodiscard]] Result<os::Mapping> map_results() const;

  // KV blocks 0 … n - 1 that have memory.
  [[nodiscard]] std::uint32_t kv_blocks_backed() const;

  // Gives the next extent of the KV memory: some MB, or what is left.
  // Blocks: some milliseconds.
  //
  // Errors: kResourceExhausted.
  [[nodiscard]] Status back_kv();

  // The rank has given all memory of the KV back.
  void forget_kv() { kv_backed_ = 0; }

 private:
  static constexpr std::size_t kRegions = kExchange;
  std::array<os::Memfd, kRegions> memory_;
  std::uint32_t kv_blocks_ = 0;
  std::size_t kv_block_bytes_ = 0;
  std::size_t kv_backed_ = 0;  // bytes, from the beginning
};

}  // namespace phalanx::fleet
