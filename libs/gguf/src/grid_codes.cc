// SPDX-License-Identifier: Apache-2.0
// The types of tensor_type.h whose elements are points of grids (code_grids.h), 8 or 4 at a time.
// An octet is 8 consecutive elements of a block; a block has 32 of them.
#include <algorithm>
#include <bit>

#include "block_codes.h"
#include "code_grids.h"

namespace phalanx::gguf {
namespace {

constexpr std::size_t kOctets = 32;
constexpr std::size_t kOctetsOfRun = 4;
constexpr std::size_t kGroups = kLargestBlock / kCodeGroup;

// Eight signs of which seven are told: an even number of elements is negative.
std::uint32_t even_signs(std::uint32_t seven) {
  return seven | (static_cast<std::uint32_t>(std::popcount(seven)) & 1U) << 7;
}

// Puts a point at element `first`: coordinate j with the sign of bit j.
template <std::size_t width>
void put_signed(const std::array<std::int8_t, width>& point,
                std::uint32_t signs,
                std::size_t first,
                BlockCodes& out) {
  for (std::size_t j = 0; j < width; ++j) {
    const std::uint32_t flip = 0U - ((signs >> j) & 1U);
    out.set(first + j, (static_cast<std::uint32_t>(point[j]) ^ flip) - flip);
  }
}

// An octet of IQ1 in eighths: −1, 0 and 1, all of them an eighth more or less.
void put_shifted(std::size_t place, bool is_below, std::size_t octet, BlockCodes& out) {
  const std::uint32_t shift = is_below ? 0U - 1U : 1U;
  for (std::size_t j = 0; j < 8; ++j) {
    out.set(8 * octet + j, static_cast<std::uint32_t>(kIq1Grid[place][j]) * 8 + shift);
  }
}

void set_group(std::size_t group, float scale, BlockCodes& out) {
  out.scales[group] = scale;
  out.minima[group] = 0.0F;
}

// unit · (2s + 1) for each group of 16, whose s are the nibbles of 8 bytes.
void group_scales(float unit, const std::byte* s, BlockCodes& out) {
  for (std::size_t group = 0; group < kGroups; ++group) {
    const std::uint32_t nibble = (u8(s, group / 2) >> (group % 2 * 4)) & 15U;
    set_group(group, unit * as_float(2 * nibble + 1), out);
  }
}

}  // namespace

void codes_iq2_xxs(const std::byte* block, BlockCodes& out) {
  const float unit = half_at(block) * 0.125F;
  for (std::size_t run = 0; run < kRuns; ++run) {
    const std::byte* places = block + kHalfBytes + 8 * run;
    const auto word = load<std::uint32_t>(places + kOctetsOfRun);
    out.set_run(run, unit * as_float(2 * (word >> 28) + 1), 0.0F);
    for (std::size_t i = 0; i < kOctetsOfRun; ++i) {
      const std::uint32_t signs = even_signs((word >> (7 * i)) & 127U);
      put_signed(kIq2XxsGrid[u8(places, i)], signs, 32 * run + 8 * i, out);
    }
  }
}

void codes_iq2_xs(const std::byte* block, BlockCodes& out) {
  group_scales(half_at(block) * 0.125F, block + kHalfBytes + 2 * kOctets, out);
  for (std::size_t octet = 0; octet < kOctets; ++octet) {
    const std::uint32_t q = load<std::uint16_t>(block + kHalfBytes + 2 * octet);
    put_signed(kIq2XsGrid[q & 511U], even_signs(q >> 9), 8 * octet, out);
  }
}

void codes_iq2_s(const std::byte* block, BlockCodes& out) {
  const std::byte* low = block + kHalfBytes;
  const std::byte* signs = low + kOctets;
  const std::byte* tops = signs + kOctets;
  group_scales(half_at(block) * 0.125F, tops + kRuns, out);
  for (std::size_t octet = 0; octet < kOctets; ++octet) {
    const std::uint32_t top = (u8(tops, octet / 4) >> (octet % 4 * 2)) & 3U;
    put_signed(kIq2SGrid[u8(low, octet) | top << 8], u8(signs, octet), 8 * octet, out);
  }
}

void codes_iq3_xxs(const std::byte* block, BlockCodes& out) {
  const float unit = half_at(block) * 0.25F;
  const std::byte* places = block + kHalfBytes;
  for (std::size_t run = 0; run < kRuns; ++run) {
    const auto word = load<std::uint32_t>(places + 2 * kOctets + 4 * run);
    out.set_run(run, unit * as_float(2 * (word >> 28) + 1), 0.0F);
    for (std::size_t i = 0; i < kOctetsOfRun; ++i) {
      const std::size_t octet = kOctetsOfRun * run + i;
      const std::uint32_t signs = even_signs((word >> (7 * i)) & 127U);
      put_signed(kIq3XxsGrid[u8(places, 2 * octet)], signs, 8 * octet, out);
      put_signed(kIq3XxsGrid[u8(places, 2 * octet + 1)], signs >> 4, 8 * octet + 4, out);
    }
  }
}

void codes_iq3_s(const std::byte* block, BlockCodes& out) {
  const float d = half_at(block);
  const std::byte* low = block + kHalfBytes;
  const std::byte* tops = low + 2 * kOctets;
  const std::byte* signs = tops + kRuns;
  const std::byte* s = signs + kOctets;
  for (std::size_t run = 0; run < kRuns; ++run) {
    const std::uint32_t nibble = (u8(s, run / 2) >> (run % 2 * 4)) & 15U;
    out.set_run(run, d * as_float(2 * nibble + 1), 0.0F);
  }
  for (std::size_t four = 0; four < 2 * kOctets; ++four) {
    const std::uint32_t top = (u8(tops, four / 8) >> (four % 8)) & 1U;
    const std::uint32_t bits = u8(signs, four / 2) >> (four % 2 * 4);
    put_signed(kIq3SGrid[u8(low, four) | top << 8], bits, 4 * four, out);
  }
}

void codes_iq1_s(const std::byte* block, BlockCodes& out) {
  const float unit = half_at(block) * 0.125F;
  const std::byte* low = block + kHalfBytes;
  for (std::size_t run = 0; run < kRuns; ++run) {
    const std::uint32_t word = load<std::uint16_t>(low + kOctets + 2 * run);
    out.set_run(run, unit * as_float(2 * ((word >> 12) & 7U) + 1), 0.0F);
    for (std::size_t i = 0; i < kOctetsOfRun; ++i) {
      const std::size_t octet = kOctetsOfRun * run + i;
      const std::uint32_t top = (word >> (3 * i)) & 7U;
      put_shifted(u8(low, octet) | top << 8, word >> 15 != 0, octet, out);
    }
  }
}

void codes_iq1_m(const std::byte* block, BlockCodes& out) {
  const std::byte* tops = block + kOctets;
  const std::byte* s = tops + kOctets / 2;
  std::array<std::uint32_t, 4> words;
  std::uint32_t half = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = load<std::uint16_t>(s + 2 * i);
    half |= words[i] >> 12 << (4 * i);
  }
  const float unit = half_of(half) * 0.125F;
  for (std::size_t group = 0; group < kGroups; ++group) {
    const std::uint32_t bits = (words[group / 4] >> (group % 4 * 3)) & 7U;
    set_group(group, unit * as_float(2 * bits + 1), out);
  }
  for (std::size_t octet = 0; octet < kOctets; ++octet) {
    const std::uint32_t nibble = u8(tops, octet / 2) >> (octet % 2 * 4);
    put_shifted(u8(block, octet) | (nibble & 7U) << 8, (nibble & 8U) != 0, octet, out);
  }
}

}  // namespace phalanx::gguf
