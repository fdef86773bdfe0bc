// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "phalanx/kernels/kernel_table.h"

#include "kernel_case.h"

namespace phalanx::bench {

// Attention of a layer over keys and values of either format: of a prompt, of sequences that
// decode, and of one whose context is divided, with what adds its parts up. `table` and `scratch`
// outlive the cases.
//
// Requires: the float mode is set.
void add_attention_kernels(std::vector<Case>& cases,
                           const kernels::KernelTable& table,
                           Scratch& scratch);

}  // namespace phalanx::bench
