// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/sequence_tokens.h"

#include <optional>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/prefix_hash.h"

namespace phalanx::engine {

SequenceTokens::SequenceTokens(std::vector<TokenId> rest,
                               std::shared_ptr<const PromptBlocks> beginning)
    : beginning_(std::move(beginning)), rest_(std::move(rest)) {
  PHALANX_CHECK(shared_size() % step::kBlockTokens == 0, "only full blocks are shared");
}

std::vector<TokenId> SequenceTokens::all() const {
  std::vector<TokenId> tokens;
  tokens.reserve(size());
  if (beginning_ != nullptr) {
    tokens = beginning_->tokens;
  }
  tokens.insert(tokens.end(), rest_.begin(), rest_.end());
  return tokens;
}

TokenId SequenceTokens::back() const {
  return rest_.empty() ? beginning_->tokens.back() : rest_.back();
}

std::span<const TokenId> SequenceTokens::block(std::size_t index) const {
  const std::size_t first = index * step::kBlockTokens;
  if (first < shared_size()) {
    return std::span(beginning_->tokens).subspan(first, step::kBlockTokens);
  }
  return std::span(rest_).subspan(first - shared_size(), step::kBlockTokens);
}

void SequenceTokens::hash_blocks(std::uint64_t key, std::string_view salt) {
  for (std::size_t i = hashed_blocks(); i < size() / step::kBlockTokens; ++i) {
    const auto before = i == 0 ? std::nullopt : std::optional(hash(i - 1));
    rest_hashes_.push_back(step::prefix_hash(key, salt, before, block(i)));
  }
}

std::size_t SequenceTokens::hashed_blocks() const {
  return shared_hashes() + rest_hashes_.size();
}

std::uint64_t SequenceTokens::hash(std::size_t index) const {
  return index < shared_hashes() ? beginning_->hashes[index]
                                 : rest_hashes_[index - shared_hashes()];
}

bool operator==(const SequenceTokens& a, const SequenceTokens& b) {
  const bool same_beginning =
      a.beginning_ == b.beginning_ ||
      (a.beginning_ != nullptr && b.beginning_ != nullptr && *a.beginning_ == *b.beginning_);
  return same_beginning && a.rest_ == b.rest_ && a.rest_hashes_ == b.rest_hashes_;
}

}  // namespace phalanx::engine
