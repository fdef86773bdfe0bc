// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>

#include "phalanx/base/clock.h"

namespace phalanx::keeper {

// How living fronts that run an outdated program are replaced, one after the other. One that is
// replaced gets no more connections and lets go of those at rest. It is ended when it has none
// left, or when another one can go on with what is left; but one that a connection would end with
// is waited for, as long as kMaxRetireTime.
//
// Ownership: borrows the clock.
// Threads: one. Blocks: never.
class FrontRenewal {
 public:
  // For short answers to end with the front that began them. Those that take longer go on at
  // another one …
  static constexpr Duration kRetireTime = std::chrono::seconds(1);
  // … which is looked at each connection for so often …
  static constexpr Duration kJudgePeriod = std::chrono::seconds(1);
  // … and what nobody could go on with is waited for so long.
  static constexpr Duration kMaxRetireTime = std::chrono::minutes(10);

  // A front as it is now.
  struct View {
    bool outdated = false;  // it is ready, and runs a program that is not the newest one
    bool active = false;    // it gets connections
    bool spare = false;     // it is ready to take over
    std::size_t connections = 0;
  };

  struct Calls {
    // It is not known which program the next front is started with.
    std::function<bool()> on_trial;
    std::function<View(std::size_t front)> view;
    // It gets no more connections, is not spare either, and lets go of those at rest.
    std::function<void(std::size_t front)> retire;
    // Whether a connection of the front would end with it.
    std::function<bool(std::size_t front)> would_cut;
    // It is ended, and another one started in its place; on_gone() follows.
    std::function<void(std::size_t front)> replace;
  };

  // Of the fronts below `fronts`.
  FrontRenewal(const Clock& clock, std::size_t fronts, Calls calls);

  // Goes on as far as that can be now. To be called when a front got ready or lost a connection,
  // when there is another program, and at every tick.
  void advance();

  // It is dead, however it has ended. What the next one in its place runs tells whether that is
  // replaced, too.
  void on_gone(std::size_t front);

  // Nothing is replaced any more.
  void close() { closed_ = true; }

 private:
  struct Retiring {
    std::size_t front;
    SteadyTime since;         // it has been told so
    SteadyTime judged{};      // what would end with it was last looked for
    bool restarting = false;  // it is to end now
  };

  [[nodiscard]] std::optional<std::size_t> next() const;
  [[nodiscard]] bool may_replace();

  const Clock& clock_;
  std::size_t fronts_;
  Calls calls_;
  std::optional<Retiring> retiring_;
  bool closed_ = false;
};

}  // namespace phalanx::keeper
