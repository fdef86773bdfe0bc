// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/isa.h"

#include <algorithm>

#include "phalanx/base/check.h"

namespace phalanx::kernels {

namespace {

constexpr std::string_view kAuto = "auto";

struct Feature {
  std::string_view name;
  bool (*is_present)();
};

// The builtin wants a literal. It also asks the operating system whether it saves the wide
// registers.
constexpr std::array kFeatures = {
    Feature{"avx2", [] { return __builtin_cpu_supports("avx2") != 0; }},
    Feature{"fma", [] { return __builtin_cpu_supports("fma") != 0; }},
    Feature{"f16c", [] { return __builtin_cpu_supports("f16c") != 0; }},
    Feature{"avx512f", [] { return __builtin_cpu_supports("avx512f") != 0; }},
    Feature{"avx512bw", [] { return __builtin_cpu_supports("avx512bw") != 0; }},
    Feature{"avx512dq", [] { return __builtin_cpu_supports("avx512dq") != 0; }},
    Feature{"avx512vl", [] { return __builtin_cpu_supports("avx512vl") != 0; }},
    Feature{"avx512_vnni", [] { return __builtin_cpu_supports("avx512vnni") != 0; }},
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

bool is_available(const IsaRow& row) {
  return all_needs(row.needs, [](const Feature* feature) { return feature->is_present(); });
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

std::string_view isa_name(Isa isa) {
  const auto index = static_cast<std::size_t>(isa);
  PHALANX_CHECK(index < kIsas.size() && kIsas[index].isa == isa, "not an instruction set");
  return kIsas[index].name;
}

std::vector<std::string> isa_choices() {
  std::vector<std::string> choices{std::string(kAuto)};
  for (const IsaRow& row : kIsas) {
    choices.emplace_back(row.name);
  }
  return choices;
}

std::string isa_needs() {
  std::string text;
  for (const IsaRow& row : kIsas) {
    if (!row.needs.empty()) {
      text.append(text.empty() ? "" : "; ").append(row.name).append(" needs ").append(row.needs);
    }
  }
  return text;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const IsaRow& row : kIsas) {
    if (is_available(row)) {
      isas.push_back(row.isa);
    }
  }
  return isas;
}

Result<Isa> resolve_isa(std::string_view requested) {
  if (requested == kAuto) {
    return available_isas().back();
  }
  for (const IsaRow& row : kIsas) {
    if (row.name != requested) {
      continue;
    }
    if (!is_available(row)) {
      return failed_precondition("--isa " + std::string(requested) +
                                 ": this processor does not have it (it needs " +
                                 std::string(row.needs) + "); available: " + available_names());
    }
    return row.isa;
  }
  return invalid_argument("--isa " + std::string(requested) + ": unknown; expected one of " +
                          join(isa_choices()));
}

}  // namespace phalanx::kernels
