// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/base/ids.h"

namespace phalanx::step {

// Names of the beginnings of a sequence by full KV blocks: hashes[i] stands for `salt` and the
// tokens [0, kBlockTokens × (i + 1)). Leader and replicas of a boot have one `key`, secret and
// random, and so compute the same ones.
//
// A hash finds a candidate and never proves anything: whoever uses KV compares the tokens. Two
// beginnings of one hash still cost: only the first of them is kept, and the leader takes both for
// known. Tokens come from clients, who could choose such a pair if they knew the key.

// The hash of the beginning that ends with `block`, which is full; `before` is that of the
// beginning which ends with the block before it.
[[nodiscard]] std::uint64_t prefix_hash(std::uint64_t key,
                                        std::string_view salt,
                                        std::optional<std::uint64_t> before,
                                        std::span<const TokenId> block);

// Appends to `hashes`, which name the first blocks of `tokens` already, those of the further full
// blocks.
void extend_prefix_hashes(std::uint64_t key,
                          std::string_view salt,
                          std::span<const TokenId> tokens,
                          std::vector<std::uint64_t>& hashes);

// How many of `blocks` blocks from the first on are known, if with each those before it are; asks
// is_known(index) of a few of them.
template <typename IsKnown>
[[nodiscard]] std::size_t known_prefix(std::size_t blocks, const IsKnown& is_known) {
  std::size_t first_unknown = 0;
  for (std::size_t left = blocks; left > 0;) {
    const std::size_t half = left / 2;
    if (is_known(first_unknown + half)) {
      first_unknown += half + 1;
      left -= half + 1;
    } else {
      left = half;
    }
  }
  return first_unknown;
}

}  // namespace phalanx::step
