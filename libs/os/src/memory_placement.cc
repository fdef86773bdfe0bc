// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/memory_placement.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <string>

#include "phalanx/base/check.h"

namespace phalanx::os {
namespace {

// CONFIG_NODES_SHIFT is at most 10.
constexpr std::size_t kMaxNodes = 1024;
constexpr std::size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;
using NodeMask = std::array<unsigned long, kMaxNodes / kWordBits>;

// The kernel reads one bit less than it is told.
constexpr unsigned long kMaskBits = kMaxNodes + 1;

bool has(const NodeMask& mask, std::uint32_t node) {
  return node < kMaxNodes && (mask[node / kWordBits] >> (node % kWordBits) & 1U) != 0;
}

Result<NodeMask> allowed_nodes() {
  NodeMask mask = {};
  if (::syscall(SYS_get_mempolicy, nullptr, mask.data(), kMaxNodes, 0, MPOL_F_MEMS_ALLOWED) != 0) {
    return errno_error("asking for the nodes of memory", errno);
  }
  return mask;
}

Status prefer(const Mapping& mapping, const NodeStripe& stripe) {
  NodeMask mask = {};
  mask[stripe.node / kWordBits] = 1UL << (stripe.node % kWordBits);
  if (::syscall(SYS_mbind,
                mapping.data() + stripe.offset,
                stripe.bytes,
                MPOL_PREFERRED,
                mask.data(),
                kMaskBits,
                0) != 0) {
    return errno_error("placing memory on node " + std::to_string(stripe.node), errno);
  }
  return ok();
}

}  // namespace

std::vector<NodeStripe> node_stripes(std::size_t bytes, const NodeList& nodes) {
  PHALANX_CHECK(!nodes.empty(), "stripes need a node");
  std::size_t stripe = std::max(bytes, kHugePageBytes);
  if (nodes.size() > 1) {
    const std::size_t pages = (bytes + kHugePageBytes - 1) / kHugePageBytes;
    stripe = (pages + kMaxStripes - 1) / kMaxStripes * kHugePageBytes;
  }
  std::vector<NodeStripe> stripes;
  for (std::size_t at = 0; at < bytes; at += stripe) {
    stripes.push_back({at, std::min(stripe, bytes - at), nodes[stripes.size() % nodes.size()]});
  }
  return stripes;
}

Status place_on_nodes(const Memfd& memory, const NodeList& nodes) {
  if (nodes.empty()) {
    return ok();
  }
  PHALANX_TRY(const NodeMask allowed, allowed_nodes());
  NodeList usable;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(usable), [&](std::uint32_t node) {
    return has(allowed, node);
  });
  if (usable.empty()) {
    return failed_precondition(
        "this process may use no memory of the nodes that its CPUs are near");
  }
  // The policy belongs to the pages of the file, not to this mapping of it.
  PHALANX_TRY(const Mapping mapping, memory.map(Access::kReadOnly));
  for (const NodeStripe& stripe : node_stripes(memory.size(), usable)) {
    PHALANX_RETURN_IF_ERROR(prefer(mapping, stripe));
  }
  return ok();
}

}  // namespace phalanx::os
