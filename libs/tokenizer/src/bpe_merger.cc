// SPDX-License-Identifier: Apache-2.0
#include "bpe_merger.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "phalanx/base/hash.h"

namespace phalanx::tokenizer {
namespace {

thread_local std::uint64_t work_done = 0;

constexpr std::int32_t kNoKey = std::numeric_limits<std::int32_t>::max();

// One key per pair, its rank above its place, so that the smallest is the next merge; and the
// smallest of each block, so that few are compared for a change.
template <std::size_t kMax>
class PairKeys {
 public:
  // Requires: 0 < count <= kMax.
  explicit PairKeys(std::size_t count) : blocks_((count + kBlock - 1) / kBlock) {
    std::fill_n(keys_.begin(), blocks_ * kBlock, kNoKey);
  }

  // Sets a key before sum_up().
  void fill(std::size_t place, std::int32_t key) { keys_[place] = key; }
  void sum_up() {
    for (std::size_t block = 0; block < blocks_; ++block) {
      sum_up(block);
    }
  }

  void set(std::size_t place, std::int32_t key) {
    keys_[place] = key;
    sum_up(place / kBlock);
  }

  [[nodiscard]] std::int32_t least() const {
    work_done += blocks_;
    return *std::min_element(least_.begin(), least_.begin() + static_cast<std::ptrdiff_t>(blocks_));
  }

 private:
  static constexpr std::size_t kBlock = 16;
  static_assert(kMax % kBlock == 0);

  void sum_up(std::size_t block) {
    const std::int32_t* const keys = keys_.data() + block * kBlock;
    std::int32_t least = keys[0];
    for (std::size_t i = 1; i < kBlock; ++i) {
      least = std::min(least, keys[i]);
    }
    least_[block] = least;
    work_done += kBlock;
  }

  std::size_t blocks_;
  std::array<std::int32_t, kMax> keys_;
  std::array<std::int32_t, kMax / kBlock> least_;
};

// Remembers of which two tokens it is known whether they stay apart. Direct-mapped.
class NeighbourCache {
 public:
  struct Entry {
    std::uint64_t tokenizer = 0;
    TokenId left = 0;
    TokenId right = 0;
    bool apart = false;
  };

  Entry& at(TokenId left, TokenId right) {
    if (entries_.empty()) {
      entries_.resize(kEntries);
    }
    return entries_[mix64((static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
                          static_cast<std::uint32_t>(right)) %
                    kEntries];
  }

 private:
  static constexpr std::size_t kEntries = 4096;
  std::vector<Entry> entries_;
};

// Sizes of windows: doubled when a window brings nothing new, halved again after a while.
class WindowSize {
 public:
  explicit WindowSize(std::size_t least) : least_(least), size_(least) {}

  [[nodiscard]] std::size_t get() const { return size_; }

  void went_on() {
    if (++successes_ == kPatience) {
      successes_ = 0;
      size_ = std::max(size_ / 2, least_);
    }
  }
  void brought_nothing() {
    successes_ = 0;
    size_ *= 2;
  }

 private:
  static constexpr int kPatience = 4;

  std::size_t least_;
  std::size_t size_;
  int successes_ = 0;
};

}  // namespace

std::uint64_t Bpe::Merger::work() {
  return work_done;
}

void Bpe::Merger::merge_by_scan(std::span<const TokenId> symbols, Runs& out) const {
  static_assert(kMaxRank * kMaxScan <= std::uint64_t{1} << 31);
  PairKeys<kMaxScan> keys(symbols.size());
  std::array<TokenId, kMaxScan> merged;
  std::array<TokenId, kMaxScan> ids;
  std::array<std::uint16_t, kMaxScan> next;
  std::array<std::uint16_t, kMaxScan> previous;
  const std::size_t count = symbols.size();
  const auto key_of = [&](std::size_t place, Candidate candidate) {
    merged[place] = candidate.merged;
    return candidate.rank == kMaxRank
               ? kNoKey
               : static_cast<std::int32_t>(candidate.rank * kMaxScan + place);
  };
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = symbols[i];
    next[i] = static_cast<std::uint16_t>(i + 1);
    previous[i] = static_cast<std::uint16_t>(i - 1);  // of the first never read
    if (i + 1 < count) {
      keys.fill(i, key_of(i, bpe_.find_symbol_pair(symbols[i], symbols[i + 1])));
    }
  }
  keys.sum_up();
  for (std::int32_t best = keys.least(); best != kNoKey; best = keys.least()) {
    const std::size_t place = static_cast<std::size_t>(best) % kMaxScan;
    const std::size_t right = next[place];
    const std::size_t behind = next[right];
    ids[place] = merged[place];
    next[place] = static_cast<std::uint16_t>(behind);
    keys.set(right, kNoKey);
    if (behind < count) {
      previous[behind] = static_cast<std::uint16_t>(place);
      keys.set(place, key_of(place, bpe_.find_pair(ids[place], ids[behind])));
    } else {
      keys.set(place, kNoKey);
    }
    if (place > 0) {
      const std::size_t before = previous[place];
      keys.set(before, key_of(before, bpe_.find_pair(ids[before], ids[place])));
    }
  }
  for (std::size_t i = 0; i < count; i = next[i]) {
    out.push_back({ids[i], static_cast<std::uint32_t>(next[i] - i)});
  }
}

// A queue of rank and place; an entry whose pair has changed since no longer has the rank that
// stands at its place.
void Bpe::Merger::merge_by_queue(std::span<const TokenId> symbols, Runs& out) const {
  struct Symbol {
    TokenId id;
    TokenId merged;
    std::uint32_t rank;  // of the pair with the next symbol; kMaxRank: none, or merged away
    std::uint32_t next;
    std::uint32_t previous;
  };
  std::vector<Symbol> list(symbols.size());
  std::vector<std::uint64_t> queue;
  queue.reserve(symbols.size());
  const auto set = [&](std::size_t place, Candidate candidate) {
    list[place].rank = candidate.rank;
    list[place].merged = candidate.merged;
    return candidate.rank != kMaxRank;
  };
  const auto entry = [&](std::size_t place) {
    return (static_cast<std::uint64_t>(list[place].rank) << 32) | place;
  };
  const auto push = [&](std::size_t place) {
    queue.push_back(entry(place));
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].id = symbols[i];
    list[i].next = static_cast<std::uint32_t>(i + 1);
    list[i].previous = static_cast<std::uint32_t>(i - 1);  // of the first never read
    if (set(i,
            i + 1 < list.size() ? bpe_.find_symbol_pair(symbols[i], symbols[i + 1])
                                : Candidate{})) {
      queue.push_back(entry(i));
    }
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  work_done += queue.size();
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const std::uint64_t top = queue.back();
    queue.pop_back();
    ++work_done;
    const auto place = static_cast<std::uint32_t>(top);
    Symbol& left = list[place];
    if (left.rank != top >> 32) {
      continue;
    }
    Symbol& right = list[left.next];
    left.id = left.merged;
    left.next = right.next;
    right.rank = kMaxRank;
    left.rank = kMaxRank;
    if (left.next < list.size()) {
      list[left.next].previous = place;
      if (set(place, bpe_.find_pair(left.id, list[left.next].id))) {
        push(place);
      }
    }
    if (place > 0 && set(left.previous, bpe_.find_pair(list[left.previous].id, left.id))) {
      push(left.previous);
    }
  }
  for (std::size_t i = 0; i < list.size(); i = list[i].next) {
    out.push_back({list[i].id, static_cast<std::uint32_t>(list[i].next - i)});
  }
}

void Bpe::Merger::merge(std::span<const TokenId> symbols, Runs& out) const {
  out.clear();
  if (symbols.size() <= kMaxScan) {
    merge_by_scan(symbols, out);
  } else {
    merge_by_queue(symbols, out);
  }
}

// Whether the first of the symbols, which belong to `left` and `right`, encode to these two.
bool Bpe::Merger::stay_apart(std::span<const TokenId> symbols, Run left, Run right) const {
  thread_local NeighbourCache cache;
  thread_local Runs both;
  NeighbourCache::Entry& known = cache.at(left.id, right.id);
  if (known.tokenizer != bpe_.number_ || known.left != left.id || known.right != right.id) {
    merge(symbols.first(left.symbols + right.symbols), both);
    known = {bpe_.number_, left.id, right.id, both.size() == 2 && both[0].symbols == left.symbols};
  }
  return known.apart;
}

// Makes the tokens of `done`, which end at `place`, and of `window`, which begin there, one
// encoding: merges the last of `done` and the first of `window`, at most `kept`, anew. The number
// of tokens of `window` that went into `done`; nothing, and `done` as it was, if that is not
// enough.
std::optional<std::size_t> Bpe::Merger::stitch(std::span<const TokenId> symbols,
                                               std::size_t place,
                                               std::size_t kept,
                                               Runs& done,
                                               const Runs& window) const {
  thread_local Runs between;
  if (done.empty() ||
      stay_apart(symbols.subspan(place - done.back().symbols), done.back(), window.front())) {
    return std::size_t{0};
  }
  std::size_t left = done.size() - 1;  // the first that is merged anew
  std::size_t right = 1;               // the first behind it
  std::size_t begin = place - done[left].symbols;
  std::size_t end = place + window[0].symbols;
  while (end - begin <= kMaxScan && right <= kept) {
    merge(symbols.subspan(begin, end - begin), between);
    const bool left_stays = left == 0 || stay_apart(symbols.subspan(begin - done[left - 1].symbols),
                                                    done[left - 1],
                                                    between.front());
    const bool right_stays =
        right == window.size() ||
        stay_apart(symbols.subspan(end - between.back().symbols), between.back(), window[right]);
    if (left_stays && right_stays) {
      done.resize(left);
      done.insert(done.end(), between.begin(), between.end());
      return right;
    }
    if (!left_stays) {
      begin -= done[--left].symbols;
    }
    if (!right_stays) {
      end += window[right++].symbols;
    }
  }
  return std::nullopt;
}

void Bpe::Merger::encode_long(std::span<const TokenId> symbols, Runs& done) const {
  thread_local Runs window;
  WindowSize window_size(kWindow);
  std::size_t at = 0;        // symbols in `done`
  std::size_t furthest = 0;  // the largest `at` so far
  while (at < symbols.size()) {
    const std::size_t size = std::min(window_size.get(), symbols.size() - at);
    merge(symbols.subspan(at, size), window);
    const bool reaches_the_end = at + size == symbols.size();
    // What follows may still change the last token of the window.
    const std::size_t kept = reaches_the_end ? window.size() : window.size() - 1;
    const std::optional<std::size_t> stitched = stitch(symbols, at, kept, done, window);
    if (!stitched.has_value()) {
      at -= done.back().symbols;
      done.pop_back();
      window_size.brought_nothing();
      continue;
    }
    done.insert(done.end(),
                window.begin() + static_cast<std::ptrdiff_t>(*stitched),
                window.begin() + static_cast<std::ptrdiff_t>(kept));
    at += size - (reaches_the_end ? 0 : window.back().symbols);
    if (at > furthest) {
      furthest = at;
      window_size.went_on();
    } else {
      window_size.brought_nothing();
    }
  }
}

void Bpe::Merger::encode(std::span<const TokenId> symbols, std::vector<TokenId>& out) {
  thread_local Runs runs;
  if (symbols.empty()) {
    return;
  }
  if (symbols.size() <= kMaxScan) {
    merge(symbols, runs);
  } else {
    runs.clear();
    encode_long(symbols, runs);
  }
  for (const Run& run : runs) {
    out.push_back(run.id);
  }
}

}  // namespace phalanx::tokenizer
