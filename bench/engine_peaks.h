// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "phalanx/kernels/isa.h"
#include "phalanx/kernels/thread_team.h"

#include "engine_limit.h"

namespace phalanx::bench {

// Bytes to read for a figure of memory and not of caches.
[[nodiscard]] std::size_t read_buffer_bytes();

// Measures what the threads of `team` can do together with the instructions that kernels of `isa`
// use: loads of `buffer` (any contents), and loops over registers, each the best of a few tries of
// some hundredths of a second. With kRef: those of kAvx2.
//
// Requires: the thread that made `team`; buffer of read_buffer_bytes(), 64-byte aligned.
[[nodiscard]] Peaks measure_peaks(kernels::ThreadTeam& team,
                                  kernels::Isa isa,
                                  std::span<const std::byte> buffer);

}  // namespace phalanx::bench
