// SPDX-License-Identifier: Apache-2.0
// Which CPUs share a core, and which are near the same memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/os/cpu_set.h"

namespace phalanx::os {

struct CpuPlace {
  std::uint32_t cpu = 0;
  std::uint32_t core = 0;  // the lowest CPU of those that share its core
  std::uint32_t node = 0;  // of memory (NUMA)

  friend bool operator==(const CpuPlace&, const CpuPlace&) = default;
};
using CpuTopology = std::vector<CpuPlace>;

// Places of these CPUs as `sysfs` has them, in their order. What it does not say, as in some
// containers, is taken for a core of its own and for node 0.
[[nodiscard]] CpuTopology read_cpu_topology(const CpuList& cpus,
                                            const std::string& sysfs = "/sys/devices/system");

// Nodes of memory near these CPUs, ascending. Empty where the machine has no more than one, or does
// not say.
using NodeList = std::vector<std::uint32_t>;
[[nodiscard]] NodeList nodes_near(const CpuList& cpus,
                                  const std::string& sysfs = "/sys/devices/system");

// A set of CPUs for each rank, one CPU of each core: a second one adds nothing to loops that fill
// the core, and is left to threads that pass messages. The ranks of a replica, which follow one
// another, are neighbours; a rank stays within a node where nodes can be divided evenly. With fewer
// cores than ranks all sets are empty: threads that took turns on a core, and could not leave it,
// would wait for each other while others are idle.
// Requires: ranks > 0, `topology` not empty.
[[nodiscard]] std::vector<CpuList> default_core_sets(std::size_t ranks,
                                                     const CpuTopology& topology);

}  // namespace phalanx::os
