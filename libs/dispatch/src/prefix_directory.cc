// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/prefix_directory.h"

#include "phalanx/step/limits.h"
#include "phalanx/step/prefix_hash.h"

namespace phalanx::dispatch {
namespace {

// More blocks than a replica may have (--num-kv-blocks): a mirror that has lost count ends here.
constexpr std::size_t kMaxHashes = std::size_t{1} << 24;

}  // namespace

void PrefixDirectory::apply(ReplicaId replica, const wire::PrefixChanges& changes) {
  std::unordered_set<std::uint64_t>& known = known_.at(replica.value());
  if (changes.cleared) {
    known.clear();
  }
  for (const std::uint64_t hash : changes.evicted) {
    known.erase(hash);
  }
  if (known.size() + changes.published.size() <= kMaxHashes) {
    known.insert(changes.published.begin(), changes.published.end());
  }
}

std::uint64_t PrefixDirectory::known_tokens(ReplicaId replica,
                                            std::span<const std::uint64_t> hashes) const {
  const std::unordered_set<std::uint64_t>& known = known_.at(replica.value());
  const auto is_known = [&](std::size_t block) { return known.contains(hashes[block]); };
  return step::known_prefix(hashes.size(), is_known) * step::kBlockTokens;
}

}  // namespace phalanx::dispatch
