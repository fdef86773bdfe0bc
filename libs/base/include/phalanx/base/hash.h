// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace phalanx {

// Finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits in which every input
// bit moves about half of the output bits.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// A 64-bit fingerprint of a sequence of words and bytes, for comparing state between processes of
// one build. Not for hostile input: it is no cryptographic hash.
class Fingerprint {
 public:
  constexpr Fingerprint& add(std::uint64_t word) {
    state_ = mix64(state_ ^ mix64(word + 0x9E3779B97F4A7C15ULL)) + 0x9E3779B97F4A7C15ULL;
    return *this;
  }

  Fingerprint& add_bytes(std::span<const std::byte> bytes) {
    add(bytes.size());
    std::size_t offset = 0;
    for (; offset + 8 <= bytes.size(); offset += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + offset, 8);
      add(word);
    }
    if (offset < bytes.size()) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + offset, bytes.size() - offset);
      add(word);
    }
    return *this;
  }

  Fingerprint& add_text(std::string_view text) {
    return add_bytes(std::as_bytes(std::span(text.data(), text.size())));
  }

  [[nodiscard]] constexpr std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x5068616C616E7821ULL;
};

}  // namespace phalanx
