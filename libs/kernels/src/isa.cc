// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "phalanx/base/check.h"

#include "chain_pairs.h"

namespace phalanx::kernels {

namespace {

struct Feature {
  std::string_view name;
  bool (*is_present)();
};

// Bits of ECX of CPUID leaf 1, of EDX of leaf 7 and of EAX of its first subleaf. That the wide
// registers are saved is asked with avx2; whether the operating system saves tile registers is what
// its permission says.
constexpr unsigned kF16c = 29;
constexpr unsigned kAvxVnni = 4;
constexpr unsigned kAmxBf16 = 22;
constexpr unsigned kAmxTile = 24;
constexpr unsigned kAmxInt8 = 25;
// Of EAX of an AMD leaf.
constexpr unsigned kWidthsLeaf = 0x8000001A;
constexpr unsigned kWidth256 = 2;
constexpr unsigned kWidth512 = 3;

struct Cpuid {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
};

// Zeros where the processor has no such leaf.
Cpuid cpuid(unsigned leaf, unsigned subleaf = 0) {
  Cpuid found;
  static_cast<void>(
      __get_cpuid_count(leaf, subleaf, &found.eax, &found.ebx, &found.ecx, &found.edx));
  return found;
}

bool has_basic_feature(unsigned bit) {
  return (cpuid(1).ecx >> bit & 1) != 0;
}

bool has_extended_feature(unsigned bit) {
  return (cpuid(7).edx >> bit & 1) != 0;
}

// Leaf 7 says itself how many subleaves it has; others repeat the last one on some processors.
bool has_later_feature(unsigned bit) {
  return cpuid(7).eax >= 1 && (cpuid(7, 1).eax >> bit & 1) != 0;
}

// The builtin wants a literal. It also asks the operating system whether it saves the wide
// registers.
constexpr std::array kFeatures = {
    Feature{"avx2", [] { return __builtin_cpu_supports("avx2") != 0; }},
    Feature{"fma", [] { return __builtin_cpu_supports("fma") != 0; }},
    Feature{"f16c", [] { return has_basic_feature(kF16c); }},  // no builtin of clang 14 has it
    Feature{"avx_vnni", [] { return has_later_feature(kAvxVnni); }},
    Feature{"avx512f", [] { return __builtin_cpu_supports("avx512f") != 0; }},
    Feature{"avx512bw", [] { return __builtin_cpu_supports("avx512bw") != 0; }},
    Feature{"avx512dq", [] { return __builtin_cpu_supports("avx512dq") != 0; }},
    Feature{"avx512vl", [] { return __builtin_cpu_supports("avx512vl") != 0; }},
    Feature{"avx512_vnni", [] { return __builtin_cpu_supports("avx512vnni") != 0; }},
    Feature{"avx512_bf16", [] { return __builtin_cpu_supports("avx512bf16") != 0; }},
    Feature{"amx_tile", [] { return has_extended_feature(kAmxTile); }},
    Feature{"amx_int8", [] { return has_extended_feature(kAmxInt8); }},
    Feature{"amx_bf16", [] { return has_extended_feature(kAmxBf16); }},
};

// Whether `holds` is true of every feature that is needed; a feature without a row is a null.
template <typename Predicate>
constexpr bool all_needs(std::string_view needs, Predicate holds) {
  while (!needs.empty()) {
    const std::string_view word = needs.substr(0, needs.find(' '));
    const auto* feature =
        std::ranges::find_if(kFeatures, [&](const Feature& row) { return row.name == word; });
    if (!holds(feature == kFeatures.end() ? nullptr : feature)) {
      return false;
    }
    needs.remove_prefix(std::min(word.size() + 1, needs.size()));
  }
  return true;
}

static_assert(std::ranges::all_of(kIsas,
                                  [](const IsaRow& row) {
                                    return all_needs(row.needs, [](const Feature* feature) {
                                      return feature != nullptr;
                                    });
                                  }),
              "every feature that an instruction set needs has a row");

bool processor_has(const IsaRow& row) {
  return all_needs(row.needs, [](const Feature* feature) { return feature->is_present(); });
}

// Asks for the permission to use tile registers, as often as it is called: it costs a system call.
// Returns 0 or an errno.
int request_tile_registers() {
  // <asm/prctl.h> of older kernels does not have them.
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? 0 : errno;
}

// What keeps Linux from letting this process run the set. 0: nothing.
int request_permission(const IsaRow& row) {
  return row.isa == Isa::kAmx ? request_tile_registers() : 0;
}

// Whether its instructions compute what the arithmetic asks for, where that is not beyond doubt.
bool computes_the_same(const IsaRow& row) {
  return row.isa != Isa::kAvx512Bf16 || pairs_are_chains();
}

bool is_available(const IsaRow& row) {
  return processor_has(row) && computes_the_same(row) && request_permission(row) == 0;
}

// Sets stand in the order of their speed but for one, which depends on the processor.
Isa fastest_isa() {
  std::vector<Isa> isas = available_isas();
  if (isas.back() == Isa::kAvx512Bf16 && !pairs_are_fast()) {
    isas.pop_back();
  }
  return isas.back();
}

template <typename Texts>
std::string join(const Texts& texts) {
  std::string joined;
  for (const auto& text : texts) {
    joined.append(joined.empty() ? "" : ", ").append(text);
  }
  return joined;
}

std::string available_names() {
  std::vector<std::string_view> names;
  for (const Isa isa : available_isas()) {
    names.push_back(isa_name(isa));
  }
  return join(names);
}

}  // namespace

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const IsaRow& row : kIsas) {
    if (is_available(row)) {
      isas.push_back(row.isa);
    }
  }
  return isas;
}

bool computes_512_bits_in_halves() {
  // "Performance Optimization Identifiers" of AMD: FP256 and FP512 are the width of its data path.
  // Other processors have no such leaf.
  const unsigned widths = cpuid(kWidthsLeaf).eax;
  return (widths >> kWidth256 & 1) != 0 && (widths >> kWidth512 & 1) == 0;
}

Result<Isa> resolve_isa(std::string_view requested) {
  if (requested == step::kAutoIsa) {
    return fastest_isa();
  }
  for (const IsaRow& row : kIsas) {
    if (row.name != requested) {
      continue;
    }
    const std::string name = "--isa " + std::string(requested);
    if (!processor_has(row)) {
      return invalid_argument(name + ": this processor does not have it (it needs " +
                              std::string(row.needs) + "); available: " + available_names());
    }
    if (!computes_the_same(row)) {
      return invalid_argument(
          name + ": VDPBF16PS of this processor rounds otherwise; available: " + available_names());
    }
    if (const int refusal = request_permission(row); refusal != 0) {
      return invalid_argument(
          name + ": this processor has what it needs (" + std::string(row.needs) +
          "), but Linux does not permit it: " + std::generic_category().message(refusal) +
          "; available: " + available_names());
    }
    return row.isa;
  }
  return invalid_argument("--isa " + std::string(requested) + ": unknown; expected one of " +
                          join(isa_choices()));
}

}  // namespace phalanx::kernels
