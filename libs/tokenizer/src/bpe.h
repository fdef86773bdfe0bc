// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"

#include "vocabulary.h"

namespace phalanx::tokenizer {

// Byte-pair encoding of one piece of text: starting from single bytes, always merges the
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
  };

  // `merges` in order of rank, the first is merged first. A pair that stands twice has the later
  // rank, as in the tokenizers library.
  //
  // Ownership: borrows the vocabulary.
  // Errors:    kInvalidArgument  a byte that UTF-8 uses has no token
  //            kUnimplemented    merging can make a special token
  [[nodiscard]] static Result<std::unique_ptr<Bpe>> create(const Vocabulary& vocabulary,
                                                           const std::vector<Merge>& merges,
                                                           bool ignore_merges);

  // Appends the tokens of `piece`.
  void encode_piece(std::string_view piece, std::vector<TokenId>& out) const;

 private:
  struct Pair {
    std::uint64_t key = kNoPair;  // left id in the upper half, right id in the lower
    std::uint32_t rank = 0;
    TokenId merged = 0;
  };
  class LongMerge;
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

  [[nodiscard]] static std::uint64_t pair_key(TokenId left, TokenId right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
           static_cast<std::uint32_t>(right);
  }

  explicit Bpe(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  [[nodiscard]] Status find_byte_tokens();
  [[nodiscard]] Status refuse_reachable_special_tokens(const std::vector<Merge>& merges) const;
  void link_merges(const std::vector<Merge>& merges);
  [[nodiscard]] const Pair* find_pair(TokenId left, TokenId right) const;
  [[nodiscard]] const Pair* find_byte_pair(char left, char right) const;
  void merge_piece(std::string_view piece, std::vector<TokenId>& out) const;
  void merge_short(std::string_view piece, std::vector<TokenId>& out) const;
  void merge_long(std::string_view piece, std::vector<TokenId>& out) const;
  [[nodiscard]] bool is_whole(TokenId id, std::string_view piece) const;

  const Vocabulary& vocabulary_;
  std::uint64_t number_ = 0;  // tells apart the tokenizers of a process in per-thread caches
  bool ignore_merges_ = false;
  std::array<TokenId, 256> byte_tokens_{};
  std::vector<Pair> pairs_;              // open addressing; the number of pairs is a power of two
  std::vector<const Pair*> byte_pairs_;  // find_pair() of the tokens of two bytes, by both bytes
  // Per id: whether the bytes of this token encode to it alone. Written by any thread, always
  // with the same answer.
  mutable std::vector<std::atomic<std::uint8_t>> single_;
};

}  // namespace phalanx::tokenizer
