// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/prefix_hash.h"

#include <algorithm>
#include <cstring>

#include "phalanx/base/hash.h"
#include "phalanx/base/keyed_hash.h"
#include "phalanx/step/limits.h"

namespace phalanx::step {
namespace {

void add_bytes(KeyedHash& hash, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), 8);
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), count);
    hash.add(word);
    bytes = bytes.subspan(count);
  }
}

}  // namespace

std::uint64_t prefix_hash(std::uint64_t key,
                          std::string_view salt,
                          std::optional<std::uint64_t> before,
                          std::span<const TokenId> block) {
  KeyedHash hash(key, mix64(key));
  if (before) {
    hash.add(*before);
  } else {
    hash.add(salt.size());
    add_bytes(hash, std::as_bytes(std::span(salt)));
  }
  add_bytes(hash, std::as_bytes(block));
  return hash.value();
}

void extend_prefix_hashes(std::uint64_t key,
                          std::string_view salt,
                          std::span<const TokenId> tokens,
                          std::vector<std::uint64_t>& hashes) {
  const std::size_t full = tokens.size() / kBlockTokens;
  while (hashes.size() < full) {
    const auto before = hashes.empty() ? std::nullopt : std::optional(hashes.back());
    const auto block = tokens.subspan(hashes.size() * kBlockTokens, kBlockTokens);
    hashes.push_back(prefix_hash(key, salt, before, block));
  }
}

}  // namespace phalanx::step
