// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/check.h"

namespace phalanx::engine {

bool PrefixCache::publish(BlockId block, const Content& content) {
  PHALANX_CHECK(content.tokens.size() == step::kBlockTokens, "only a full block is published");
  PHALANX_CHECK(!contains(block), "the block is published already");
  if (!by_hash_.emplace(content.hash, block).second) {
    return false;
  }
  Node node;
  node.hash = content.hash;
  node.parent = content.parent;
  std::copy(content.tokens.begin(), content.tokens.end(), node.tokens.begin());
  if (content.parent) {
    const auto parent = nodes_.find(content.parent->value());
    PHALANX_CHECK(parent != nodes_.end(), "a block is published after the one before it");
    ++parent->second.children;
  } else {
    node.salt = content.salt;
  }
  nodes_.emplace(block.value(), std::move(node));
  if (changes_.evicted.erase(content.hash) == 0) {
    changes_.published.insert(content.hash);
  }
  return true;
}

std::optional<BlockId> PrefixCache::find(const Content& content) const {
  const auto found = by_hash_.find(content.hash);
  if (found == by_hash_.end()) {
    return std::nullopt;
  }
  const Node& node = nodes_.at(found->second.value());
  const bool follows = node.parent == content.parent && (node.parent || node.salt == content.salt);
  if (!follows || !std::ranges::equal(content.tokens, node.tokens)) {
    return std::nullopt;
  }
  return found->second;
}

void PrefixCache::evict(BlockId block) {
  const auto found = nodes_.find(block.value());
  PHALANX_CHECK(found != nodes_.end(), "the block is not published");
  PHALANX_CHECK(found->second.children == 0, "a block is evicted after those that follow it");
  if (found->second.parent) {
    --nodes_.at(found->second.parent->value()).children;
  }
  by_hash_.erase(found->second.hash);
  if (changes_.published.erase(found->second.hash) == 0) {
    changes_.evicted.insert(found->second.hash);
  }
  nodes_.erase(found);
}

void PrefixCache::clear() {
  nodes_.clear();
  by_hash_.clear();
  changes_ = {};
  changes_.cleared = true;
}

PrefixCache::Changes PrefixCache::take_changes() {
  return std::exchange(changes_, {});
}

}  // namespace phalanx::engine
