// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products of integer codes where one instruction multiplies four unsigned bytes by four signed
// ones and adds them to a sum: over c_load() and c_dot() of the lanes that include this.

namespace phalanx::kernels {
namespace {

inline constexpr std::size_t kQuadWords = 8;  // of 32 spread codes

// Four unsigned codes of each of 16 columns.
using Quads = CodeBytes;
PHALANX_LANES Quads q_load(const std::uint8_t* p) {
  return c_load(p);
}
PHALANX_LANES Quads q_of(CodeBytes quad) {
  return quad;
}
// 32 codes of a row as q_dot() takes them.
PHALANX_LANES void q_spread(const std::int8_t* codes, std::uint32_t* to) {
  n_spread(codes, to);
}
// sum + the products of quad q of a block with the columns.
PHALANX_LANES I16 q_dot(I16 sum, Quads w, const Word* block, std::size_t q) {
  return c_dot(sum, w, block[q]);
}

// A sum of one block over nibbles, from `start`.
using NibbleSum = I16;
PHALANX_LANES NibbleSum n_begin(std::int32_t start) {
  return i_set(static_cast<std::uint32_t>(start));
}
PHALANX_LANES NibbleSum n_dot(NibbleSum sum, CodeBytes w, const Word* block, std::size_t q) {
  return c_dot(sum, w, block[q]);
}
PHALANX_LANES I16 n_end(NibbleSum sum, std::int32_t /*start*/) {
  return sum;
}
// sum + the products of quads q and q + 1 of a block with columns of up to 6 bits.
PHALANX_LANES I16 s_dot(I16 sum, CodeBytes a, CodeBytes b, const Word* block, std::size_t q) {
  return c_dot(c_dot(sum, a, block[q]), b, block[q + 1]);
}

}  // namespace
}  // namespace phalanx::kernels
