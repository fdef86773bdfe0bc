// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/step/isa.h"

namespace phalanx::kernels {

using step::Isa;
using step::isa_choices;
using step::isa_name;
using step::IsaRow;
using step::kIsas;

// Those that this processor and kernel can run and that give the same bits there, in the order of
// kIsas; kRef is always there.
//
// Asks Linux to permit tile registers, where the processor has them. The permission is that of a
// process for all its threads; a child inherits it, a program that is executed has to ask again, so
// every process that computes calls this or resolve_isa() before it uses a table. Once they are
// permitted, Linux refuses alternate signal stacks too small for them (8 KB more).
[[nodiscard]] std::vector<Isa> available_isas();

// The instruction set of that name; "auto" is the fastest that is available. Whether that is
// kAvx512Bf16 depends on how fast the processor is at it, and is measured once, for some 300 µs.
//
// Errors: kInvalidArgument  no such name; the message lists the names. Or a known one that is absent
//                           here, which stays so; the message says what it needs, or that Linux
//                           does not permit it, and what is available
[[nodiscard]] Result<Isa> resolve_isa(std::string_view requested);

// Whether the processor has AVX-512 but computes 256 bits at a time, as Zen 4 does and says.
[[nodiscard]] bool computes_512_bits_in_halves();

}  // namespace phalanx::kernels
