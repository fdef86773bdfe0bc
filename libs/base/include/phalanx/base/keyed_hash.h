// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace phalanx {

// SipHash-2-4 (Aumasson, Bernstein 2012) of a sequence of words, which it takes as their
// little-endian bytes: who does not know the key can neither foretell a value nor find two
// sequences of an equal one.
class KeyedHash {
 public:
  constexpr KeyedHash(std::uint64_t key0, std::uint64_t key1)
      : v0_(key0 ^ 0x736F6D6570736575ULL),
        v1_(key1 ^ 0x646F72616E646F6DULL),
        v2_(key0 ^ 0x6C7967656E657261ULL),
        v3_(key1 ^ 0x7465646279746573ULL) {}

  constexpr KeyedHash& add(std::uint64_t word) {
    bytes_ += 8;
    compress(word);
    return *this;
  }

  // Of all words so far.
  [[nodiscard]] constexpr std::uint64_t value() const {
    KeyedHash end = *this;
    end.compress(bytes_ << 56);
    end.v2_ ^= 0xFF;
    for (int round = 0; round < 4; ++round) {
      end.mix();
    }
    return end.v0_ ^ end.v1_ ^ end.v2_ ^ end.v3_;
  }

 private:
  constexpr void compress(std::uint64_t word) {
    v3_ ^= word;
    mix();
    mix();
    v0_ ^= word;
  }

  constexpr void mix() {
    v0_ += v1_;
    v2_ += v3_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v1_;
    v0_ += v3_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_;
  std::uint64_t v1_;
  std::uint64_t v2_;
  std::uint64_t v3_;
  std::uint64_t bytes_ = 0;
};

}  // namespace phalanx
