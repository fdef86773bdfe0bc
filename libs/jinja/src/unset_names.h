// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ast.h"

namespace phalanx::jinja {

// The names that are undefined where the scope of a body begins, whatever they mean around it.
//
// Jinja decides about names before it renders. A scope owns the names that its own statements set;
// one that they do not read first, and that no scope around it knows, is undefined until it is set:
// also for the blocks inside, and also where the request has a variable of that name. A name that
// only some branches of an `if` set keeps the value from outside.
//
// Lifetime: refers to the syntax tree.
// Threads: reading is free.
class UnsetNames {
 public:
  UnsetNames() = default;
  explicit UnsetNames(const Body& root);

  // Of a body that begins a scope; no name for any other.
  [[nodiscard]] std::span<const std::string_view> of(const Body& body) const;

 private:
  std::unordered_map<const Body*, std::vector<std::string_view>> names_;
};

}  // namespace phalanx::jinja
