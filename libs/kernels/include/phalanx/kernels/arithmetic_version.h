// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/kernels/kernel_table.h"

namespace phalanx::kernels {

// The hash of the golden vectors of every operation, computed by `table`: two builds that agree on
// it give the same tokens. Deterministic; takes some 15 ms (ref: some 200).
[[nodiscard]] std::uint64_t arithmetic_version(const KernelTable& table);

// What arithmetic_version() must be. A build for which it is not has a defect or a compiler that
// fuses operations; it must not serve.
inline constexpr std::uint64_t kArithmeticVersion = 0xecd17be2a8e4a741;

}  // namespace phalanx::kernels
