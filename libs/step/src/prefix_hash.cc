// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/prefix_hash.h"

#include "phalanx/base/hash.h"
#include "phalanx/step/limits.h"

namespace phalanx::step {

void extend_prefix_hashes(std::string_view salt,
                          std::span<const TokenId> tokens,
                          std::vector<std::uint64_t>& hashes) {
  const std::size_t full = tokens.size() / kBlockTokens;
  while (hashes.size() < full) {
    Fingerprint hash;
    if (hashes.empty()) {
      hash.add_text(salt);
    } else {
      hash.add(hashes.back());
    }
    hash.add_bytes(std::as_bytes(tokens.subspan(hashes.size() * kBlockTokens, kBlockTokens)));
    hashes.push_back(hash.value());
  }
}

}  // namespace phalanx::step
