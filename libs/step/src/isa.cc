// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/isa.h"

#include "phalanx/base/check.h"

namespace phalanx::step {

std::string_view isa_name(Isa isa) {
  const auto index = static_cast<std::size_t>(isa);
  PHALANX_CHECK(index < kIsas.size() && kIsas[index].isa == isa, "not an instruction set");
  return kIsas[index].name;
}

std::vector<std::string> isa_choices() {
  std::vector<std::string> choices{std::string(kAutoIsa)};
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

}  // namespace phalanx::step
