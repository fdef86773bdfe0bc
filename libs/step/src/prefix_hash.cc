// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/prefix_hash.h"

#include "phalanx/base/hash.h"
#include "phalanx/step/limits.h"

namespace phalanx::step {

std::uint64_t prefix_hash(std::string_view salt,
                          std::optional<std::uint64_t> before,
                          std::span<const TokenId> block) {
  Fingerprint hash;
  if (before) {
    hash.add(*before);
  } else {
    hash.add_text(salt);
  }
  return hash.add_bytes(std::as_bytes(block)).value();
}

void extend_prefix_hashes(std::string_view salt,
                          std::span<const TokenId> tokens,
                          std::vector<std::uint64_t>& hashes) {
  const std::size_t full = tokens.size() / kBlockTokens;
  while (hashes.size() < full) {
    const auto before = hashes.empty() ? std::nullopt : std::optional(hashes.back());
    const auto block = tokens.subspan(hashes.size() * kBlockTokens, kBlockTokens);
    hashes.push_back(prefix_hash(salt, before, block));
  }
}

}  // namespace phalanx::step
