// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/kernels/kernel_table.h"
#include "phalanx/kernels/weight.h"

#include "kernel_case.h"

namespace phalanx::bench {

// What is done to every row besides products and attention, on kMaxRows rows; the embedding of each
// format. `table` and `scratch` outlive the cases.
//
// Errors: those of kernels::make_rope_frequencies()
[[nodiscard]] Status add_row_kernels(std::vector<Case>& cases,
                                     const kernels::KernelTable& table,
                                     Scratch& scratch,
                                     std::span<const kernels::WeightFormat> formats);

}  // namespace phalanx::bench
