// SPDX-License-Identifier: Apache-2.0
// The instruction sets that kernels are written for, by name: for those who compute and for those
// who only pass a choice on.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx::step {

// A way to carry out the arithmetic. All give the same bits; they differ in speed only.
enum class Isa : std::uint8_t { kRef, kAvx2, kAvxVnni, kAvx512, kAvx512Vnni, kAvx512Bf16, kAmx };

struct IsaRow {
  Isa isa;
  std::string_view name;
  std::string_view needs;  // features of the processor as /proc/cpuinfo names them, by blanks
};

// Every instruction set, slowest first, in the order of the enum; some processors have kAvx512Bf16
// and are faster without. Options, messages, help and tests
// are made from this table.
inline constexpr std::array kIsas = {
    IsaRow{Isa::kRef, "ref", ""},  // plain C++ for any x86-64: the definition
    IsaRow{Isa::kAvx2, "avx2", "avx2 fma f16c"},
    IsaRow{Isa::kAvxVnni, "avxvnni", "avx2 fma f16c avx_vnni"},
    IsaRow{Isa::kAvx512, "avx512", "avx512f avx512bw avx512dq avx512vl"},
    IsaRow{Isa::kAvx512Vnni, "avx512vnni", "avx512f avx512bw avx512dq avx512vl avx512_vnni"},
    // Products and attention of bf16 by VDPBF16PS, all else as avx512vnni.
    IsaRow{Isa::kAvx512Bf16,
           "avx512bf16",
           "avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_bf16"},
    // Products by tile registers, all else as avx512vnni. Linux has to permit them to the process.
    IsaRow{Isa::kAmx,
           "amx",
           "avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_bf16 amx_tile amx_int8 amx_bf16"},
};

// The fastest that is available.
inline constexpr std::string_view kAutoIsa = "auto";

// Requires an instruction set of the table.
[[nodiscard]] std::string_view isa_name(Isa isa);

// What --isa takes: kAutoIsa and the names.
[[nodiscard]] std::vector<std::string> isa_choices();

// For help texts: "avx2 needs avx2 fma f16c; avx512 needs …".
[[nodiscard]] std::string isa_needs();

}  // namespace phalanx::step
