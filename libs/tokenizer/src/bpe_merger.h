// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bpe.h"

namespace phalanx::tokenizer {

// Merges the symbols of one piece, whatever its length, in near linear time.
//
// A longer piece than kMaxScan symbols is merged in windows whose results are joined, by this
// property of byte-pair encoding: a sequence of tokens is the encoding
// of its text exactly if the encoding of each token's text is that token and the encoding of each
// two neighbours' text is those two. (Merges left and right of a place that no merge crosses do not
// influence each other, and which of two neighbours' merges comes first does not depend on what
// lies further away. So if some merge crossed the place in the whole, it would in the two alone.)
// Inside a window it holds by itself; where two windows meet, the two tokens are encoded together
// to see. If they do not stay, the window is moved back by a token and, from the second time on,
// made twice as long. In windows up to kMaxScan symbols the next merge is found in blocks of keys,
// in longer ones in a queue.
class Bpe::Merger {
 public:
  explicit Merger(const Bpe& bpe) : bpe_(bpe) {}

  // Appends the tokens of `symbols`.
  void encode(std::span<const TokenId> symbols, std::vector<TokenId>& out);

  [[nodiscard]] static std::uint64_t work();

 private:
  static constexpr std::size_t kWindow = 128;
  static constexpr std::size_t kMaxScan = 512;

  // A token and how many symbols went into it.
  struct Run {
    TokenId id;
    std::uint32_t symbols;
  };
  using Runs = std::vector<Run>;

  void merge(std::span<const TokenId> symbols, Runs& out) const;
  void merge_by_scan(std::span<const TokenId> symbols, Runs& out) const;
  void merge_by_queue(std::span<const TokenId> symbols, Runs& out) const;
  void encode_long(std::span<const TokenId> symbols, Runs& done) const;
  [[nodiscard]] bool stay_apart(std::span<const TokenId> symbols, Run left, Run right) const;
  [[nodiscard]] std::optional<std::size_t> stitch(std::span<const TokenId> symbols,
                                                  std::size_t place,
                                                  std::size_t kept,
                                                  Runs& done,
                                                  const Runs& window) const;

  const Bpe& bpe_;
};

}  // namespace phalanx::tokenizer
