// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/kernels/kernel_table.h"
#include "phalanx/kernels/weight.h"

#include "kernel_case.h"

namespace phalanx::bench {

// Products of a layer, of each format by each number of rows, which is at most kMaxRows. `table`
// and `scratch` outlive the cases.
void add_products(std::vector<Case>& cases,
                  const kernels::KernelTable& table,
                  Scratch& scratch,
                  std::span<const kernels::WeightFormat> formats,
                  std::span<const std::uint32_t> row_counts);

}  // namespace phalanx::bench
