// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "phalanx/engine/prefix_cache.h"
#include "phalanx/engine/sequence.h"

namespace phalanx::engine {

// What full block `index` of the sequence holds, behind those before it, which lie in `blocks`.
// Borrows the sequence. Requires index < sequence.tokens.hashed_blocks().
inline PrefixCache::Content content_of(const Sequence& sequence,
                                       std::size_t index,
                                       std::span<const BlockId> blocks) {
  PrefixCache::Content content;
  content.hash = sequence.tokens.hash(index);
  if (index > 0) {
    const bool after_twin = sequence.twin && sequence.twin->index == index - 1;
    content.parent = after_twin ? sequence.twin->block : blocks[index - 1];
  }
  content.tokens = sequence.tokens.block(index);
  content.salt = sequence.cache_salt;
  return content;
}

}  // namespace phalanx::engine
