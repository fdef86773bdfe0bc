// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "bpe.h"

namespace phalanx::tokenizer {
namespace {

using Index = std::int32_t;

// Places at which one pair may be merged, given out in ascending order. Places nearly always
// arrive in that order; those that do not wait in a heap.
class Places {
 public:
  void add(Index place) {
    if (in_order_.size() == taken_) {
      in_order_.clear();
      taken_ = 0;
    }
    if (in_order_.empty() || in_order_.back() < place) {
      in_order_.push_back(place);
    } else {
      late_.push(place);
    }
  }

  [[nodiscard]] bool empty() const { return taken_ == in_order_.size() && late_.empty(); }

  // Requires !empty().
  Index take() {
    if (taken_ == in_order_.size() || (!late_.empty() && late_.top() < in_order_[taken_])) {
      const Index place = late_.top();
      late_.pop();
      return place;
    }
    return in_order_[taken_++];
  }

 private:
  std::vector<Index> in_order_;
  std::size_t taken_ = 0;
  std::priority_queue<Index, std::vector<Index>, std::greater<>> late_;
};

std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

// Merges a piece of any length in O(n log n): symbols in a linked list, candidates by rank, the
// places of a rank in order. A candidate that a later merge made stale is told by its symbols.
class Bpe::LongMerge {
 public:
  LongMerge(const Bpe& bpe, std::string_view piece) : bpe_(bpe), symbols_(piece.size()) {
    const auto count = static_cast<Index>(piece.size());
    for (Index i = 0; i < count; ++i) {
      const TokenId id = bpe.byte_tokens_[static_cast<unsigned char>(piece[at(i)])];
      symbols_[at(i)] = {id, i - 1, i + 1 < count ? i + 1 : kNone};
    }
    for (Index i = 0; i + 1 < count; ++i) {
      offer(i, bpe.find_byte_pair(piece[at(i)], piece[at(i) + 1]));
    }
  }

  void run(std::vector<TokenId>& out) {
    while (!ranks_.empty()) {
      Candidates& candidates = by_rank_.find(ranks_.top())->second;
      if (candidates.places.empty()) {
        candidates.queued = false;
        ranks_.pop();
        continue;
      }
      merge_at(candidates.places.take(), *candidates.pair);
    }
    for (Index i = 0; i != kNone; i = symbols_[at(i)].next) {
      out.push_back(symbols_[at(i)].id);
    }
  }

 private:
  static constexpr Index kNone = -1;
  static constexpr TokenId kMerged = -1;  // the symbol went into its left neighbour

  struct Symbol {
    TokenId id;
    Index previous;  // neighbours, kNone at the ends
    Index next;
  };
  struct Candidates {
    const Pair* pair = nullptr;
    bool queued = false;  // its rank stands in ranks_
    Places places;
  };

  void merge_at(Index place, const Pair& pair) {
    Symbol& left = symbols_[at(place)];
    if (left.id == kMerged || left.next == kNone ||
        pair_key(left.id, symbols_[at(left.next)].id) != pair.key) {
      return;
    }
    Symbol& right = symbols_[at(left.next)];
    left.id = pair.merged;
    left.next = right.next;
    right.id = kMerged;
    if (left.previous != kNone) {
      offer(left.previous, bpe_.find_pair(symbols_[at(left.previous)].id, left.id));
    }
    if (left.next != kNone) {
      symbols_[at(left.next)].previous = place;
      offer(place, bpe_.find_pair(left.id, symbols_[at(left.next)].id));
    }
  }

  void offer(Index place, const Pair* pair) {
    if (pair == nullptr) {
      return;
    }
    Candidates& candidates = by_rank_[pair->rank];
    candidates.pair = pair;
    candidates.places.add(place);
    if (!candidates.queued) {
      candidates.queued = true;
      ranks_.push(pair->rank);
    }
  }

  const Bpe& bpe_;
  std::vector<Symbol> symbols_;
  std::unordered_map<std::uint32_t, Candidates> by_rank_;
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ranks_;
};

void Bpe::merge_long(std::string_view piece, std::vector<TokenId>& out) const {
  LongMerge(*this, piece).run(out);
}

}  // namespace phalanx::tokenizer
