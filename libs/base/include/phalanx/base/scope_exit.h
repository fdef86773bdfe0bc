// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace phalanx {

// Runs `action` when it goes out of scope, unless dismissed. The action must not throw.
template <typename Action>
class [[nodiscard]] ScopeExit {
 public:
  explicit ScopeExit(Action action) : action_(std::move(action)) {}
  ScopeExit(const ScopeExit&) = delete;
  ScopeExit& operator=(const ScopeExit&) = delete;
  ~ScopeExit() {
    if (armed_) {
      action_();
    }
  }
  void dismiss() { armed_ = false; }

 private:
  Action action_;
  bool armed_ = true;
};

}  // namespace phalanx
