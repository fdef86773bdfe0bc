// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/isa.h"

#include <array>
#include <string>

#include "phalanx/base/check.h"

namespace phalanx::kernels {

namespace {

struct IsaRow {
  Isa isa;
  std::string_view name;
};

constexpr std::array kIsas = {
    IsaRow{Isa::kRef, "ref"}, IsaRow{Isa::kAvx2, "avx2"}, IsaRow{Isa::kAvx512, "avx512"}};

// The builtin also asks the operating system whether it saves the wide registers.
bool is_available(Isa isa) {
  switch (isa) {
    case Isa::kRef:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
             __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  }
  return false;
}

std::string names_of(const std::vector<Isa>& isas) {
  std::string text;
  for (const Isa isa : isas) {
    text += (text.empty() ? "" : ", ") + std::string(isa_name(isa));
  }
  return text;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  for (const IsaRow& row : kIsas) {
    if (row.isa == isa) {
      return row.name;
    }
  }
  PHALANX_CHECK(false, "not an instruction set");
  return {};
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const IsaRow& row : kIsas) {
    if (is_available(row.isa)) {
      isas.push_back(row.isa);
    }
  }
  return isas;
}

Result<Isa> resolve_isa(std::string_view requested) {
  const std::vector<Isa> available = available_isas();
  if (requested.empty()) {
    return available.back();
  }
  for (const IsaRow& row : kIsas) {
    if (row.name != requested) {
      continue;
    }
    if (!is_available(row.isa)) {
      return failed_precondition(
          "PHALANX_ISA=" + std::string(requested) +
          ": this processor does not have it; available: " + names_of(available));
    }
    return row.isa;
  }
  return invalid_argument("PHALANX_ISA=" + std::string(requested) +
                          ": unknown; expected ref, avx2 or avx512");
}

}  // namespace phalanx::kernels
