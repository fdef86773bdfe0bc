// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::kernels {

// A way to carry out the arithmetic. All give the same bits; they differ in speed only.
enum class Isa : std::uint8_t {
  kRef,     // plain C++ for any x86-64: the definition, slow
  kAvx2,    // AVX2 + FMA
  kAvx512,  // AVX-512 F, BW, DQ, VL
};

[[nodiscard]] std::string_view isa_name(Isa isa);  // "ref", "avx2", "avx512"

// Those that this processor and kernel can run, slowest first; kRef is always there.
[[nodiscard]] std::vector<Isa> available_isas();

// Parses the value of PHALANX_ISA. An empty text is the fastest that is available.
//
// Errors: kInvalidArgument     no such name; the message lists the names
//         kFailedPrecondition  known, but absent here; the message lists what is available
[[nodiscard]] Result<Isa> resolve_isa(std::string_view requested);

}  // namespace phalanx::kernels
