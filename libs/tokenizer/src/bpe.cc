// SPDX-License-Identifier: Apache-2.0
#include "bpe.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "phalanx/base/hash.h"

namespace phalanx::tokenizer {
namespace {

constexpr std::uint8_t kUnknown = 0;
constexpr std::uint8_t kSingle = 1;
constexpr std::uint8_t kSeveral = 2;

// Up to here trying all pairs per merge is faster than keeping a heap.
constexpr std::size_t kShortPieceBytes = 48;
constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

// Remembers the tokens of pieces that are short and took several tokens. Direct-mapped: bounded,
// and an entry costs one comparison.
class PieceCache {
 public:
  static constexpr std::size_t kPieceBytesMax = 24;
  static constexpr std::size_t kTokensMax = 8;

  struct Entry {
    std::uint64_t tokenizer = 0;
    std::uint8_t piece_bytes = 0;
    std::uint8_t token_count = 0;
    std::array<char, kPieceBytesMax> piece{};
    std::array<TokenId, kTokensMax> tokens{};

    [[nodiscard]] bool holds(std::uint64_t number, std::string_view text) const {
      return tokenizer == number && std::string_view(piece.data(), piece_bytes) == text;
    }
  };

  Entry& at(std::string_view piece) {
    if (entries_.empty()) {
      entries_.resize(kEntries);
    }
    return entries_[hash_bytes(piece) % kEntries];
  }

 private:
  static constexpr std::size_t kEntries = 8192;
  std::vector<Entry> entries_;
};

PieceCache& piece_cache() {
  thread_local PieceCache cache;
  return cache;
}

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> counter{0};
  return ++counter;
}

// Bytes that no UTF-8 text contains.
bool never_in_utf8(unsigned byte) {
  return byte == 0xC0 || byte == 0xC1 || byte > 0xF4;
}

}  // namespace

Result<std::unique_ptr<Bpe>> Bpe::create(const Vocabulary& vocabulary,
                                         const std::vector<Merge>& merges,
                                         bool ignore_merges) {
  std::unique_ptr<Bpe> bpe(new Bpe(vocabulary));
  bpe->number_ = next_number();
  bpe->ignore_merges_ = ignore_merges;
  bpe->single_ = std::vector<std::atomic<std::uint8_t>>(vocabulary.size());
  PHALANX_RETURN_IF_ERROR(bpe->find_byte_tokens());
  PHALANX_RETURN_IF_ERROR(bpe->refuse_reachable_special_tokens(merges));
  bpe->link_merges(merges);
  return bpe;
}

Status Bpe::find_byte_tokens() {
  for (unsigned byte = 0; byte < byte_tokens_.size(); ++byte) {
    const char text = static_cast<char>(byte);
    const std::optional<TokenId> id = vocabulary_.find(std::string_view(&text, 1));
    if (!id.has_value() && !never_in_utf8(byte)) {
      return invalid_argument("vocabulary: expected a token for every byte, found none for byte " +
                              std::to_string(byte));
    }
    if (id.has_value() && !vocabulary_.in_model(*id)) {
      return invalid_argument("vocabulary: the token of byte " + std::to_string(byte) +
                              " is an added one");
    }
    byte_tokens_[byte] = id.value_or(0);
  }
  return ok();
}

// Ordinary text must never give a special token, whatever the file says.
Status Bpe::refuse_reachable_special_tokens(const std::vector<Merge>& merges) const {
  const auto refuse = [this](TokenId id) -> Status {
    if (vocabulary_.kind(id) != Vocabulary::Kind::kSpecial) {
      return ok();
    }
    return unimplemented("special token \"" + std::string(vocabulary_.bytes(id)) +
                         "\" can also be made by merging ordinary text, which is not supported");
  };
  for (const TokenId id : byte_tokens_) {
    PHALANX_RETURN_IF_ERROR(refuse(id));
  }
  for (const Merge& merge : merges) {
    PHALANX_RETURN_IF_ERROR(refuse(merge.merged));
  }
  return ok();
}

void Bpe::link_merges(const std::vector<Merge>& merges) {
  // At most three quarters full: a table that fits the cache matters more than a short probe.
  pairs_.resize(std::bit_ceil(std::max<std::size_t>(merges.size() * 4 / 3, 64)));
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t key = pair_key(merges[rank].left, merges[rank].right);
    std::size_t at = mix64(key) & (pairs_.size() - 1);
    while (pairs_[at].key != kNoPair && pairs_[at].key != key) {
      at = (at + 1) & (pairs_.size() - 1);
    }
    pairs_[at] = {key, static_cast<std::uint32_t>(rank), merges[rank].merged};
  }
  byte_pairs_.resize(byte_tokens_.size() * byte_tokens_.size());
  for (std::size_t i = 0; i < byte_pairs_.size(); ++i) {
    byte_pairs_[i] =
        find_pair(byte_tokens_[i / byte_tokens_.size()], byte_tokens_[i % byte_tokens_.size()]);
  }
}

const Bpe::Pair* Bpe::find_byte_pair(char left, char right) const {
  return byte_pairs_[static_cast<unsigned char>(left) * byte_tokens_.size() +
                     static_cast<unsigned char>(right)];
}

const Bpe::Pair* Bpe::find_pair(TokenId left, TokenId right) const {
  const std::uint64_t key = pair_key(left, right);
  for (std::size_t at = mix64(key) & (pairs_.size() - 1); pairs_[at].key != kNoPair;
       at = (at + 1) & (pairs_.size() - 1)) {
    if (pairs_[at].key == key) {
      return &pairs_[at];
    }
  }
  return nullptr;
}

// Whether `piece`, whose bytes are those of token `id`, encodes to that token alone.
bool Bpe::is_whole(TokenId id, std::string_view piece) const {
  if (!vocabulary_.in_model(id) || vocabulary_.kind(id) == Vocabulary::Kind::kSpecial) {
    return false;
  }
  if (ignore_merges_) {
    return true;
  }
  std::atomic<std::uint8_t>& state = single_[static_cast<std::size_t>(id)];
  std::uint8_t known = state.load(std::memory_order_relaxed);
  if (known == kUnknown) {
    std::vector<TokenId> tokens;
    merge_piece(piece, tokens);
    known = tokens.size() == 1 && tokens[0] == id ? kSingle : kSeveral;
    state.store(known, std::memory_order_relaxed);
  }
  return known == kSingle;
}

void Bpe::encode_piece(std::string_view piece, std::vector<TokenId>& out) const {
  if (piece.size() == 1) {
    out.push_back(byte_tokens_[static_cast<unsigned char>(piece[0])]);
    return;
  }
  if (piece.size() <= vocabulary_.token_bytes_max()) {
    const std::optional<TokenId> id = vocabulary_.find(piece);
    if (id.has_value() && is_whole(*id, piece)) {
      out.push_back(*id);
      return;
    }
  }
  if (piece.size() > PieceCache::kPieceBytesMax) {
    merge_piece(piece, out);
    return;
  }
  PieceCache::Entry& entry = piece_cache().at(piece);
  if (entry.holds(number_, piece)) {
    out.insert(out.end(), entry.tokens.begin(), entry.tokens.begin() + entry.token_count);
    return;
  }
  const std::size_t before = out.size();
  merge_piece(piece, out);
  const std::size_t count = out.size() - before;
  if (count <= PieceCache::kTokensMax) {
    entry.tokenizer = number_;
    entry.piece_bytes = static_cast<std::uint8_t>(piece.size());
    entry.token_count = static_cast<std::uint8_t>(count);
    std::copy(piece.begin(), piece.end(), entry.piece.begin());
    std::copy(out.end() - static_cast<std::ptrdiff_t>(count), out.end(), entry.tokens.begin());
  }
}

void Bpe::merge_piece(std::string_view piece, std::vector<TokenId>& out) const {
  if (piece.size() <= kShortPieceBytes) {
    merge_short(piece, out);
  } else {
    merge_long(piece, out);
  }
}

void Bpe::merge_short(std::string_view piece, std::vector<TokenId>& out) const {
  std::array<TokenId, kShortPieceBytes> ids{};
  std::array<const Pair*, kShortPieceBytes> pairs{};  // of ids[i] and ids[i + 1]
  std::size_t count = piece.size();
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = byte_tokens_[static_cast<unsigned char>(piece[i])];
  }
  for (std::size_t i = 0; i + 1 < count; ++i) {
    pairs[i] = find_byte_pair(piece[i], piece[i + 1]);
  }
  while (true) {
    std::size_t best = 0;
    std::uint32_t best_rank = kNoRank;
    for (std::size_t i = 0; i + 1 < count; ++i) {
      if (pairs[i] != nullptr && pairs[i]->rank < best_rank) {
        best = i;
        best_rank = pairs[i]->rank;
      }
    }
    if (best_rank == kNoRank) {
      break;
    }
    ids[best] = pairs[best]->merged;
    --count;
    for (std::size_t i = best + 1; i < count; ++i) {
      ids[i] = ids[i + 1];
      pairs[i] = pairs[i + 1];
    }
    pairs[best] = best + 1 < count ? find_pair(ids[best], ids[best + 1]) : nullptr;
    if (best > 0) {
      pairs[best - 1] = find_pair(ids[best - 1], ids[best]);
    }
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace phalanx::tokenizer
