// SPDX-License-Identifier: Apache-2.0
// The types of tensor_type.h whose elements are −1, 0 and 1, or of Q1_0 −1 and 1 alone; two bits
// can say 2 as well.
#include "block_codes.h"

namespace phalanx::gguf {
namespace {

// Elements [first, first + width · digits) from `width` bytes, each of which is a fraction of five
// digits to the base of 3: the first digits of all bytes, the second ones, and so on.
void base_three(
    const std::byte* q, std::size_t width, std::size_t digits, std::size_t first, BlockCodes& out) {
  std::uint32_t power = 1;
  for (std::size_t digit = 0; digit < digits; ++digit, power *= 3) {
    for (std::size_t j = 0; j < width; ++j) {
      const std::uint32_t fraction = (u8(q, j) * power) & 255U;
      out.set(first + digit * width + j, (fraction * 3 >> 8) - 1U);
    }
  }
}

}  // namespace

void codes_tq1_0(const std::byte* block, BlockCodes& out) {
  out.set_all(half_at(block + 52));
  base_three(block, 32, 5, 0, out);
  base_three(block + 32, 16, 5, 160, out);
  base_three(block + 48, 4, 4, 240, out);
}

void codes_tq2_0(const std::byte* block, BlockCodes& out) {
  out.set_all(half_at(block + 64));
  two_bits(block, 1, out);
}

void codes_q1_0(const std::byte* block, BlockCodes& out) {
  out.set_all(half_at(block));
  for (std::size_t i = 0; i < 128; ++i) {
    out.set(i, 2 * ((u8(block, kHalfBytes + i / 8) >> (i % 8)) & 1U) - 1U);
  }
}

void codes_q2_0(const std::byte* block, BlockCodes& out) {
  out.set_all(half_at(block));
  for (std::size_t i = 0; i < 64; ++i) {
    out.set(i, ((u8(block, kHalfBytes + i / 4) >> (i % 4 * 2)) & 3U) - 1U);
  }
}

}  // namespace phalanx::gguf
