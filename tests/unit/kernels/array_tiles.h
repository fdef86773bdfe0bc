// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/kernels/kernel_table.h"

namespace phalanx::kernels {

// The avx512vnni table with the matrix products of amx, tile registers being arrays of TileFile:
// how these products block, treat tails and end, proved without the instructions.
// Requires: avx512vnni is available.
const KernelTable& array_tiles_table();

// The same, but no row goes to the lanes.
const KernelTable& all_array_tiles_table();

}  // namespace phalanx::kernels
