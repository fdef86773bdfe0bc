// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"

#include "vocabulary.h"

namespace phalanx::tokenizer {

// Byte-pair encoding of one piece of text: starting from single symbols, always merges the
// neighbouring pair of lowest rank, the leftmost of equals.
//
// Threads: encode_piece() may be called from any thread at the same time; it keeps a bounded cache
// per thread and a table of known single-token pieces that all threads share.
class Bpe {
 public:
  struct Merge {
    TokenId left;
    TokenId right;
    TokenId merged;
    std::uint32_t rank;  // below kMaxRank; the lowest is merged first
  };
  static constexpr std::uint32_t kMaxRank = 1U << 22;

  struct Options {
    // A piece whose bytes are those of a token is that token, whatever the merges say.
    bool ignore_merges = false;
    // Symbols are characters instead of bytes.
    bool characters = false;
    // With `characters`: a character without a token becomes the tokens of its bytes, the id of
    // each byte.
    std::optional<std::array<TokenId, 256>> byte_fallback = std::nullopt;
    // What stands for a symbol without a token. Without it, such symbols are left out.
    std::optional<TokenId> unknown = std::nullopt;
    bool fuse_unknown = false;  // one for a run of them
  };

  // Of two merges of one pair the later counts, as in the tokenizers library.
  //
  // Ownership: borrows the vocabulary, which may get added tokens afterwards, and no others.
  // Errors:    kInvalidArgument  the token of a byte is an added one
  //            kUnimplemented    merging can make a special token
  [[nodiscard]] static Result<std::unique_ptr<Bpe>> create(const Vocabulary& vocabulary,
                                                           const std::vector<Merge>& merges,
                                                           Options options);

  // Whether a merge makes the token.
  [[nodiscard]] bool makes(TokenId id) const;
  // No piece becomes this token as a whole from now on. Requires that no merge makes it. Not while
  // other threads encode.
  void withhold(TokenId id);

  // Appends the tokens of `piece`, which is UTF-8 if symbols are characters.
  void encode_piece(std::string_view piece, std::vector<TokenId>& out) const;

  // Steps of merging that the calling thread has done since its start: pairs compared and queue
  // entries handled. For tests of the cost of long pieces.
  [[nodiscard]] static std::uint64_t work_of_this_thread();

 private:
  class Merger;
  struct Pair {
    std::uint64_t key = kNoPair;  // left id in the upper half, right id in the lower
    std::uint32_t rank = kMaxRank;
    TokenId merged = 0;
  };
  struct Candidate {
    std::uint32_t rank = kMaxRank;  // kMaxRank: the pair does not merge
    TokenId merged = 0;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};
  static constexpr TokenId kNone = -1;

  [[nodiscard]] static std::uint64_t pair_key(TokenId left, TokenId right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
           static_cast<std::uint32_t>(right);
  }

  Bpe(const Vocabulary& vocabulary, Options options) : vocabulary_(vocabulary), options_(options) {}

  void judge_tokens();
  [[nodiscard]] Status find_symbols();
  [[nodiscard]] Status refuse_reachable_special_tokens(const std::vector<Merge>& merges) const;
  void link_merges(const std::vector<Merge>& merges);
  void link_byte_pairs();
  [[nodiscard]] Candidate find_pair(TokenId left, TokenId right) const;
  [[nodiscard]] Candidate find_symbol_pair(TokenId left, TokenId right) const;
  [[nodiscard]] bool is_whole(TokenId id, std::string_view piece) const;

  // The symbols that merging starts from.
  void split_symbols(std::string_view piece, std::vector<TokenId>& symbols) const;
  void split_characters(std::string_view piece, std::vector<TokenId>& symbols) const;
  void add_unknown(std::vector<TokenId>& symbols) const;
  void merge_piece(std::string_view piece, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary_;
  Options options_;
  std::uint64_t number_ = 0;  // tells apart the tokenizers of a process in per-thread caches
  std::array<TokenId, 256> byte_tokens_{};  // of single bytes, or of ASCII characters; or kNone
  std::vector<Pair> pairs_;                 // open addressing; the number is a power of two
  std::vector<bool> made_;                  // by id: whether a merge makes it
  // Pairs of tokens of one byte: find_pair() by the numbers that byte_numbers_ gives to both ids.
  std::vector<std::int16_t> byte_numbers_;  // by id; -1: not of one byte
  std::vector<Candidate> byte_pairs_;
  // Per id: whether text of the bytes of this token encodes to it alone. Written by any thread,
  // always with the same answer.
  mutable std::vector<std::atomic<std::uint8_t>> single_;
};

}  // namespace phalanx::tokenizer
