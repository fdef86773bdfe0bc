// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace phalanx::kernels {

// Whether VDPBF16PS adds two products one after the other, that of the upper halves first, each
// rounded once and without denormals, as the chains of a dot product do. What it gives is compared
// with that once, in some 10 µs.
//
// Requires: the processor has avx512_bf16.
[[nodiscard]] bool pairs_are_chains();

// Whether it takes less than one and a half times as long as an fma, two of which it replaces: not
// so on the Intel processors that have it so far, whose tile registers are for that. Measured once,
// for some 300 µs.
//
// Requires: the same.
[[nodiscard]] bool pairs_are_fast();

}  // namespace phalanx::kernels
