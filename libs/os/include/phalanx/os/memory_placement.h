// SPDX-License-Identifier: Apache-2.0
// On which nodes of memory (NUMA) shared memory lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/os/cpu_topology.h"
#include "phalanx/os/memfd.h"

namespace phalanx::os {

// A stripe is at least a huge page, and there are at most so many of them: each is a mapping for as
// long as placing takes, and the kernel allows a process 65,530.
inline constexpr std::size_t kMaxStripes = 8192;

struct NodeStripe {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::uint32_t node = 0;

  friend bool operator==(const NodeStripe&, const NodeStripe&) = default;
};

// Equal stripes of whole huge pages, the last one shorter, on these nodes in turns.
// Requires: nodes not empty.
[[nodiscard]] std::vector<NodeStripe> node_stripes(std::size_t bytes, const NodeList& nodes);

// Says where the memory that `memory` is given from now on shall lie, whoever gives it: on the node
// named, or in stripes on several, so that readers on all of them share all of their bandwidth. A
// node without room is no error, the kernel takes another one then; nodes that this process may not
// use are left out. No nodes: nothing is said.
//
// Errors: kFailedPrecondition and others of the kernel: it has no nodes, or forbids it, as
//         containers do. Memory is then where it would have been.
[[nodiscard]] Status place_on_nodes(const Memfd& memory, const NodeList& nodes);

}  // namespace phalanx::os
