// SPDX-License-Identifier: Apache-2.0
#include "bpe.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "phalanx/base/hash.h"
#include "phalanx/base/utf8.h"

#include "bpe_merger.h"

namespace phalanx::tokenizer {
namespace {

constexpr std::uint8_t kNotAsked = 0;
constexpr std::uint8_t kSingle = 1;
constexpr std::uint8_t kSeveral = 2;

// Remembers the tokens of pieces that are short and took several tokens. Direct-mapped: bounded,
// and an entry costs one comparison.
class PieceCache {
 public:
  static constexpr std::size_t kMaxPieceBytes = 24;
  static constexpr std::size_t kMaxTokens = 8;

  struct Entry {
    std::uint64_t tokenizer = 0;
    std::uint8_t piece_bytes = 0;
    std::uint8_t token_count = 0;
    std::array<char, kMaxPieceBytes> piece{};
    std::array<TokenId, kMaxTokens> tokens{};

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

}  // namespace

Result<std::unique_ptr<Bpe>> Bpe::create(const Vocabulary& vocabulary,
                                         const std::vector<Merge>& merges,
                                         Options options) {
  std::unique_ptr<Bpe> bpe(new Bpe(vocabulary, options));
  bpe->number_ = next_number();
  bpe->judge_tokens();
  PHALANX_RETURN_IF_ERROR(bpe->find_symbols());
  PHALANX_RETURN_IF_ERROR(bpe->refuse_reachable_special_tokens(merges));
  bpe->link_merges(merges);
  bpe->link_byte_pairs();
  return bpe;
}

// What is known of each token before anything is merged.
void Bpe::judge_tokens() {
  single_ = std::vector<std::atomic<std::uint8_t>>(vocabulary_.size());
  for (std::size_t i = 0; i < single_.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!vocabulary_.in_model(id) || vocabulary_.kind(id) == Vocabulary::Kind::kSpecial) {
      single_[i] = kSeveral;
    } else if (options_.ignore_merges) {
      single_[i] = kSingle;
    }
  }
}

Status Bpe::find_symbols() {
  for (unsigned byte = 0; byte < byte_tokens_.size(); ++byte) {
    const char text = static_cast<char>(byte);
    const std::optional<TokenId> id = vocabulary_.find(std::string_view(&text, 1));
    if (!options_.characters && id.has_value() && !vocabulary_.in_model(*id)) {
      return invalid_argument("vocabulary: the token of byte " + std::to_string(byte) +
                              " is an added one");
    }
    byte_tokens_[byte] = id.has_value() && vocabulary_.in_model(*id) ? *id : kNone;
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
  made_.assign(vocabulary_.size(), false);
  for (const Merge& merge : merges) {
    made_[static_cast<std::size_t>(merge.merged)] = true;
    const std::uint64_t key = pair_key(merge.left, merge.right);
    std::size_t at = mix64(key) & (pairs_.size() - 1);
    while (pairs_[at].key != kNoPair && pairs_[at].key != key) {
      at = (at + 1) & (pairs_.size() - 1);
    }
    pairs_[at] = {key, merge.rank, merge.merged};
  }
}

void Bpe::link_byte_pairs() {
  byte_numbers_.assign(vocabulary_.size(), -1);
  for (std::size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    if (byte_tokens_[byte] != kNone) {
      byte_numbers_[static_cast<std::size_t>(byte_tokens_[byte])] = static_cast<std::int16_t>(byte);
    }
  }
  byte_pairs_.resize(byte_tokens_.size() * byte_tokens_.size());
  for (std::size_t i = 0; i < byte_pairs_.size(); ++i) {
    const TokenId left = byte_tokens_[i / byte_tokens_.size()];
    const TokenId right = byte_tokens_[i % byte_tokens_.size()];
    if (left != kNone && right != kNone) {
      byte_pairs_[i] = find_pair(left, right);
    }
  }
}

bool Bpe::makes(TokenId id) const {
  const auto at = static_cast<std::size_t>(id);
  return at < made_.size() && made_[at];
}

void Bpe::withhold(TokenId id) {
  const auto at = static_cast<std::size_t>(id);
  if (at < single_.size()) {
    single_[at] = kSeveral;
  }
}

Bpe::Candidate Bpe::find_pair(TokenId left, TokenId right) const {
  const std::uint64_t key = pair_key(left, right);
  for (std::size_t at = mix64(key) & (pairs_.size() - 1); pairs_[at].key != kNoPair;
       at = (at + 1) & (pairs_.size() - 1)) {
    if (pairs_[at].key == key) {
      return {pairs_[at].rank, pairs_[at].merged};
    }
  }
  return {};
}

// find_pair() of two symbols: nearly all are single bytes.
Bpe::Candidate Bpe::find_symbol_pair(TokenId left, TokenId right) const {
  const std::int16_t first = byte_numbers_[static_cast<std::size_t>(left)];
  const std::int16_t second = byte_numbers_[static_cast<std::size_t>(right)];
  return first >= 0 && second >= 0 ? byte_pairs_[static_cast<std::size_t>(first) * 256U +
                                                 static_cast<std::size_t>(second)]
                                   : find_pair(left, right);
}

// Whether `piece`, whose bytes are those of token `id`, encodes to that token alone.
bool Bpe::is_whole(TokenId id, std::string_view piece) const {
  const auto at = static_cast<std::size_t>(id);
  if (at >= single_.size()) {
    return false;  // added since: none of the BPE vocabulary
  }
  std::atomic<std::uint8_t>& state = single_[at];
  std::uint8_t known = state.load(std::memory_order_relaxed);
  if (known == kNotAsked) {
    std::vector<TokenId> tokens;
    merge_piece(piece, tokens);
    known = tokens.size() == 1 && tokens[0] == id ? kSingle : kSeveral;
    state.store(known, std::memory_order_relaxed);
  }
  return known == kSingle;
}

void Bpe::encode_piece(std::string_view piece, std::vector<TokenId>& out) const {
  if (piece.size() == 1) {
    const TokenId id = byte_tokens_[static_cast<unsigned char>(piece[0])];
    if (id != kNone) {
      out.push_back(id);
      return;
    }
  }
  if (piece.size() <= vocabulary_.token_bytes_max()) {
    const std::optional<TokenId> id = vocabulary_.find(piece);
    if (id.has_value() && is_whole(*id, piece)) {
      out.push_back(*id);
      return;
    }
  }
  if (piece.size() > PieceCache::kMaxPieceBytes) {
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
  if (count <= PieceCache::kMaxTokens) {
    entry.tokenizer = number_;
    entry.piece_bytes = static_cast<std::uint8_t>(piece.size());
    entry.token_count = static_cast<std::uint8_t>(count);
    std::copy(piece.begin(), piece.end(), entry.piece.begin());
    std::copy(out.end() - static_cast<std::ptrdiff_t>(count), out.end(), entry.tokens.begin());
  }
}

void Bpe::add_unknown(std::vector<TokenId>& symbols) const {
  if (options_.unknown.has_value() &&
      !(options_.fuse_unknown && !symbols.empty() && symbols.back() == *options_.unknown)) {
    symbols.push_back(*options_.unknown);
  }
}

void Bpe::split_characters(std::string_view piece, std::vector<TokenId>& symbols) const {
  for (std::size_t at = 0; at < piece.size();) {
    std::size_t end = at;
    const char32_t character = next_code_point(piece, end);
    const std::string_view bytes = piece.substr(at, end - at);
    TokenId id = kNone;
    if (character < 0x80) {
      id = byte_tokens_[character];
    } else if (const auto found = vocabulary_.find(bytes); found && vocabulary_.in_model(*found)) {
      id = *found;
    }
    if (id != kNone) {
      symbols.push_back(id);
    } else if (options_.byte_fallback.has_value()) {
      for (const char byte : bytes) {
        symbols.push_back((*options_.byte_fallback)[static_cast<unsigned char>(byte)]);
      }
    } else {
      add_unknown(symbols);
    }
    at = end;
  }
}

void Bpe::split_symbols(std::string_view piece, std::vector<TokenId>& symbols) const {
  symbols.clear();
  if (options_.characters) {
    split_characters(piece, symbols);
    return;
  }
  symbols.reserve(piece.size());
  for (const char byte : piece) {
    const TokenId id = byte_tokens_[static_cast<unsigned char>(byte)];
    if (id != kNone) {
      symbols.push_back(id);
    } else {
      add_unknown(symbols);
    }
  }
}

void Bpe::merge_piece(std::string_view piece, std::vector<TokenId>& out) const {
  thread_local std::vector<TokenId> symbols;
  split_symbols(piece, symbols);
  Merger(*this).encode(symbols, out);
}

std::uint64_t Bpe::work_of_this_thread() {
  return Merger::work();
}

}  // namespace phalanx::tokenizer
