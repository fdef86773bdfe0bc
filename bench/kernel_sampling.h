// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "phalanx/kernels/kernel_table.h"

#include "kernel_case.h"

namespace phalanx::bench {

// What is done to one row of logits to draw a token. `table` outlives the cases.
//
// Requires: the float mode is set.
void add_sampling_kernels(std::vector<Case>& cases, const kernels::KernelTable& table);

}  // namespace phalanx::bench
