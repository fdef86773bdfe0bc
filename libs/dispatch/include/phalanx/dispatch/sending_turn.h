// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

namespace phalanx::dispatch {

// How much one turn of a loop sends, so that a body of many choices or long prompts keeps nobody
// else waiting; and whether another turn has been asked for.
//
// Threads: one.
class SendingTurn {
 public:
  static constexpr std::size_t kSubmissions = 16;
  static constexpr std::size_t kTokens = std::size_t{16} << 10;

  // `on_more`: another turn is to follow. Called once until it begins.
  explicit SendingTurn(std::function<void()> on_more) : on_more_(std::move(on_more)) {}

  void begin() {
    submissions_ = kSubmissions;
    tokens_ = kTokens;
  }
  void begin_asked() {
    asked_ = false;
    begin();
  }

  void spend(std::size_t tokens) {
    tokens_ -= std::min(tokens, tokens_);
    submissions_ = tokens_ == 0 || submissions_ == 0 ? 0 : submissions_ - 1;
  }
  [[nodiscard]] bool over() const { return submissions_ == 0; }

  void ask_for_more() {
    if (!std::exchange(asked_, true)) {
      on_more_();
    }
  }

 private:
  std::function<void()> on_more_;
  std::size_t submissions_ = kSubmissions;
  std::size_t tokens_ = kTokens;
  bool asked_ = false;
};

}  // namespace phalanx::dispatch
