// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/base/ids.h"

namespace phalanx::engine {

// The full blocks of a prompt. Never changed, so that whoever has the same prompt may hold the same
// one.
struct PromptBlocks {
  std::vector<TokenId> tokens;        // step::kBlockTokens each
  std::vector<std::uint64_t> hashes;  // of each block, or none at all
  friend bool operator==(const PromptBlocks&, const PromptBlocks&) = default;
};

// The tokens of a sequence, prompt and then produced, with the prefix hashes of their full blocks.
// Only what lies behind the full blocks of the prompt is its own: the n choices of a request take
// the memory of one prompt.
//
// A value: equal if tokens and hashes are, divided alike, whoever holds the beginning. Threads:
// one.
class SequenceTokens {
 public:
  SequenceTokens() = default;

  // `beginning` and then `rest`. Null: none.
  explicit SequenceTokens(std::vector<TokenId> rest,
                          std::shared_ptr<const PromptBlocks> beginning = nullptr);

  [[nodiscard]] const std::shared_ptr<const PromptBlocks>& beginning() const { return beginning_; }
  [[nodiscard]] std::size_t size() const { return shared_size() + rest_.size(); }
  [[nodiscard]] std::vector<TokenId> all() const;

  // Requires that there is one.
  [[nodiscard]] TokenId back() const;

  void push_back(TokenId token) { rest_.push_back(token); }

  // Requires that the block is full.
  [[nodiscard]] std::span<const TokenId> block(std::size_t index) const;

  // Hashes the full blocks that have no hash yet. `key` and `salt` are always the same.
  void hash_blocks(std::uint64_t key, std::string_view salt);

  // Blocks from the first on that have a hash.
  [[nodiscard]] std::size_t hashed_blocks() const;

  // Requires index < hashed_blocks().
  [[nodiscard]] std::uint64_t hash(std::size_t index) const;

  friend bool operator==(const SequenceTokens& a, const SequenceTokens& b);

 private:
  [[nodiscard]] std::size_t shared_size() const {
    return beginning_ == nullptr ? 0 : beginning_->tokens.size();
  }
  [[nodiscard]] std::size_t shared_hashes() const {
    return beginning_ == nullptr ? 0 : beginning_->hashes.size();
  }

  std::shared_ptr<const PromptBlocks> beginning_;
  std::vector<TokenId> rest_;
  std::vector<std::uint64_t> rest_hashes_;
};

}  // namespace phalanx::engine
