// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/check.h"

namespace phalanx::engine {

bool PrefixCache::publish(const Block& block) {
  PHALANX_CHECK(block.tokens.size() == step::kBlockTokens, "only a full block is published");
  PHALANX_CHECK(!contains(block.id), "the block is published already");
  if (!by_hash_.emplace(block.hash, block.id).second) {
    return false;
  }
  Node node;
  node.hash = block.hash;
  node.parent = block.parent;
  std::copy(block.tokens.begin(), block.tokens.end(), node.tokens.begin());
  if (block.parent) {
    const auto parent = nodes_.find(block.parent->value());
    PHALANX_CHECK(parent != nodes_.end(), "a block is published after the one before it");
    ++parent->second.children;
  } else {
    node.salt = block.salt;
  }
  nodes_.emplace(block.id.value(), std::move(node));
  if (changes_.evicted.erase(block.hash) == 0) {
    changes_.published.insert(block.hash);
  }
  return true;
}

std::vector<BlockId> PrefixCache::match(std::string_view salt,
                                        std::span<const TokenId> tokens,
                                        std::span<const std::uint64_t> hashes) const {
  std::vector<BlockId> blocks;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const auto found = by_hash_.find(hashes[i]);
    if (found == by_hash_.end()) {
      break;
    }
    const Node& node = nodes_.at(found->second.value());
    const auto wanted = tokens.subspan(i * step::kBlockTokens, step::kBlockTokens);
    const bool follows = i == 0 ? !node.parent && node.salt == salt : node.parent == blocks.back();
    if (!follows || !std::equal(wanted.begin(), wanted.end(), node.tokens.begin())) {
      break;
    }
    blocks.push_back(found->second);
  }
  return blocks;
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
