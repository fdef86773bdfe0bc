// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace phalanx::kernels {
namespace {

// What an instruction set does not say of a processor: kInHalves where computes_512_bits_in_halves()
// (Zen 4). It multiplies half as fast as it loads, and its memory gives most to what it fetches by
// itself, into its second cache.
enum class DataPath { kWhole, kInHalves };

}  // namespace
}  // namespace phalanx::kernels
