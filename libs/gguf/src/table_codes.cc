// SPDX-License-Identifier: Apache-2.0
// The types of tensor_type.h whose q is no number but the place of one in a table.
#include "block_codes.h"

namespace phalanx::gguf {
namespace {

using CodeTable = std::array<std::int8_t, 16>;

constexpr CodeTable kNonLinear = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// The numbers at the places that the nibbles of 32 elements name.
void table_nibbles(const std::byte* q, const CodeTable& table, std::int8_t* to) {
  for (std::size_t j = 0; j < kSmall / 2; ++j) {
    to[j] = table[u8(q, j) & 15U];
    to[j + kSmall / 2] = table[u8(q, j) >> 4];
  }
}

}  // namespace

void codes_iq4_nl(const std::byte* block, BlockCodes& out) {
  out.set_run(0, half_at(block), 0.0F);
  table_nibbles(block + kHalfBytes, kNonLinear, out.codes.data());
}

void codes_iq4_xs(const std::byte* block, BlockCodes& out) {
  const float d = half_at(block);
  const std::uint32_t tops = load<std::uint16_t>(block + kHalfBytes);
  const std::byte* low = block + 2 * kHalfBytes;
  const std::byte* q = low + kRuns / 2;
  for (std::size_t run = 0; run < kRuns; ++run) {
    const std::uint32_t nibble = (u8(low, run / 2) >> (run % 2 * 4)) & 15U;
    const std::uint32_t top = (tops >> (2 * run)) & 3U;
    out.set_run(run, d * as_float((nibble | top << 4) - 32U), 0.0F);
    table_nibbles(q + run * kSmall / 2, kNonLinear, out.codes.data() + run * kSmall);
  }
}

}  // namespace phalanx::gguf
