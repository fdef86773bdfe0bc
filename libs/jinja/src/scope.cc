// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "interpreter.h"

namespace phalanx::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
    for (const auto& [known, value] : scope->variables_) {
      if (known == name) {
        return &value;
      }
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [known, held] : variables_) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  variables_.emplace_back(name, std::move(value));
}

}  // namespace phalanx::jinja
