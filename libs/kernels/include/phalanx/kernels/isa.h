// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::kernels {

// A way to carry out the arithmetic. All give the same bits; they differ in speed only.
enum class Isa : std::uint8_t { kRef, kAvx2, kAvx512, kAvx512Vnni, kAmx };

struct IsaRow {
  Isa isa;
  std::string_view name;
  std::string_view needs;  // features of the processor as /proc/cpuinfo names them, by blanks
};

// Every instruction set, slowest first, in the order of the enum. Options, messages, help and tests
// are made from this table.
inline constexpr std::array kIsas = {
    IsaRow{Isa::kRef, "ref", ""},  // plain C++ for any x86-64: the definition
    IsaRow{Isa::kAvx2, "avx2", "avx2 fma f16c"},
    IsaRow{Isa::kAvx512, "avx512", "avx512f avx512bw avx512dq avx512vl"},
    IsaRow{Isa::kAvx512Vnni, "avx512vnni", "avx512f avx512bw avx512dq avx512vl avx512_vnni"},
    // Products by tile registers, all else as avx512vnni. Linux has to permit them to the process.
    IsaRow{Isa::kAmx,
           "amx",
           "avx512f avx512bw avx512dq avx512vl avx512_vnni amx_tile amx_int8 amx_bf16"},
};

[[nodiscard]] std::string_view isa_name(Isa isa);

// What resolve_isa() takes: "auto" and the names.
[[nodiscard]] std::vector<std::string> isa_choices();

// For help texts: "avx2 needs avx2 fma f16c; avx512 needs …".
[[nodiscard]] std::string isa_needs();

// Those that this processor and kernel can run, slowest first; kRef is always there.
//
// Asks Linux to permit tile registers, where the processor has them. The permission is that of a
// process for all its threads; a child inherits it, a program that is executed has to ask again, so
// every process that computes calls this or resolve_isa() before it uses a table. Once they are
// permitted, Linux refuses alternate signal stacks too small for them (8 KB more).
[[nodiscard]] std::vector<Isa> available_isas();

// The instruction set of that name; "auto" is the fastest that is available.
//
// Errors: kInvalidArgument     no such name; the message lists the names
//         kFailedPrecondition  known, but absent here; the message says what it needs, or that Linux
//                              does not permit it, and what is available
[[nodiscard]] Result<Isa> resolve_isa(std::string_view requested);

}  // namespace phalanx::kernels
