// SPDX-License-Identifier: Apache-2.0
#pragma once

// The lanes of the instruction set that this translation unit is compiled for.
#if defined(__AVX512F__)
#include "lanes/avx512_codes.h"
#include "lanes/avx512_lanes.h"
#elif defined(__AVX2__)
#include "lanes/avx2_codes.h"
#include "lanes/avx2_lanes.h"
#else
#error "lanes need AVX2 or AVX-512: see the per-file flags in libs/kernels/CMakeLists.txt"
#endif
