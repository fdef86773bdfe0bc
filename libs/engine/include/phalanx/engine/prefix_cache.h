// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "phalanx/base/ids.h"
#include "phalanx/step/limits.h"

namespace phalanx::engine {

// Which KV blocks hold the beginning of what sequence: a tree in which every node is one full block
// and its parent the block before it. A block is found by the chained hash of everything up to its
// end and taken only if its own tokens, its parent and, at the root, the salt are the ones wanted:
// so by induction the whole beginning is equal, whatever hashes collide. Sequences of different
// salts share nothing.
//
// The cache owns no block. Its owner publishes a block when the step that filled it is confirmed,
// keeps it unchanged while it is here, and evicts it before it is written again; children first.
//
// A value. Threads: one.
// Failure: misuse is a defect of ours and ends the process.
class PrefixCache {
 public:
  // What a full block holds and what it follows. `parent` is empty for the first block of a
  // sequence.
  struct Content {
    std::uint64_t hash = 0;  // step::prefix_hash()
    std::optional<BlockId> parent;
    std::span<const TokenId> tokens;  // step::kBlockTokens
    std::string_view salt;
  };

  // Enters a block; false, and nothing changes, if one of that hash is here already. Requires that
  // the parent is here.
  [[nodiscard]] bool publish(BlockId block, const Content& content);

  [[nodiscard]] bool contains(BlockId block) const { return nodes_.contains(block.value()); }

  // May the beginning that `hash` names be here?
  [[nodiscard]] bool contains(std::uint64_t hash) const { return by_hash_.contains(hash); }

  // The block that was published under `hash`, which is here. Its tokens may be others that
  // collide.
  [[nodiscard]] BlockId at(std::uint64_t hash) const { return by_hash_.at(hash); }

  // The block of exactly this content. Requires that the parent is here.
  [[nodiscard]] std::optional<BlockId> find(const Content& content) const;

  // Forgets a block that is here and has no children.
  void evict(BlockId block);
  void clear();

  [[nodiscard]] std::size_t size() const { return nodes_.size(); }

  // The difference that was made since the last call, for whoever mirrors the hashes: the clearing
  // came first, and no hash is in both sets.
  struct Changes {
    bool cleared = false;
    std::set<std::uint64_t> published;
    std::set<std::uint64_t> evicted;
    friend bool operator==(const Changes&, const Changes&) = default;
  };
  [[nodiscard]] Changes take_changes();

  friend bool operator==(const PrefixCache&, const PrefixCache&) = default;

 private:
  struct Node {
    std::uint64_t hash = 0;
    std::optional<BlockId> parent;
    std::uint32_t children = 0;
    std::array<TokenId, step::kBlockTokens> tokens{};
    std::string salt;  // of a root
    friend bool operator==(const Node&, const Node&) = default;
  };

  std::unordered_map<std::uint32_t, Node> nodes_;  // by block number
  std::unordered_map<std::uint64_t, BlockId> by_hash_;
  Changes changes_ = {.cleared = true, .published = {}, .evicted = {}};  // as of nothing
};

}  // namespace phalanx::engine
