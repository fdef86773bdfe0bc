// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/kernels/kernel_table.h"

// The tables of each instruction set. All but `ref` are one translation unit each, compiled for
// that instruction set, whose only symbols with external linkage are its functions here: an inline
// function of a shared header must never be linked from there. Call it only where the set is
// available.

namespace phalanx::kernels {

const KernelTable& ref_table();
const KernelTable& avx2_table();
const KernelTable& avxvnni_table();
const KernelTable& avx512_table();
const KernelTable& avx512vnni_table();
const KernelTable& avx512bf16_table();
// The same three, as a processor with computes_512_bits_in_halves() is faster with.
const KernelTable& avx512_in_halves_table();
const KernelTable& avx512vnni_in_halves_table();
const KernelTable& avx512bf16_in_halves_table();
const KernelTable& amx_table();

}  // namespace phalanx::kernels
