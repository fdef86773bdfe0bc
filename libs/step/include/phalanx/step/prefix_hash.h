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
// tokens [0, kBlockTokens × (i + 1)). Leader and replicas compute the same ones.
//
// Tokens come from clients, who may look for collisions. So a hash finds a candidate and never
// proves anything: whoever uses KV compares the tokens; a leader that is misled only sends work to
// another replica than it would have.

// The hash of the beginning that ends with `block`, which is full; `before` is that of the
// beginning which ends with the block before it.
[[nodiscard]] std::uint64_t prefix_hash(std::string_view salt,
                                        std::optional<std::uint64_t> before,
                                        std::span<const TokenId> block);

// Appends to `hashes`, which name the first blocks of `tokens` already, those of the further full
// blocks.
void extend_prefix_hashes(std::string_view salt,
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
