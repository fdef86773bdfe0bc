// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace phalanx {

// Runs `action` when it goes out of scope. The action must not throw.
template <typename Action>
class [[nodiscard]] ScopeExit {
 public:
  explicit ScopeExit(Action action) : action_(std::move(action)) {}
  ScopeExit(const ScopeExit&) = delete;
  ScopeExit& operator=(const ScopeExit&) = delete;
  ~ScopeExit() { action_(); }

 private:
  Action action_;
};

}  // namespace phalanx
