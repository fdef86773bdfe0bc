// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace phalanx::kernels {

// Whether VDPBF16PS adds two products one after the other, as a chain of the dot product does, and
// does so in less time than two fmas take: not on the Intel processors that have it so far, whose
// tile registers are for that. What it gives on others is compared with fmas, and how long both
// take is measured, for some 50 µs; the answer is kept.
//
// Requires: the processor has avx512_bf16.
[[nodiscard]] bool pairs_are_faster();

}  // namespace phalanx::kernels
