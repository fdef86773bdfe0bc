// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/clock_timer.h"

#include <utility>

namespace phalanx::os {

namespace {

class ClockTimer final : public EventLoop::Handle {
 public:
  ClockTimer(EventLoop& loop, const Clock& clock, Duration delay, EventLoop::Callback callback)
      : loop_(loop), clock_(clock), until_(clock.now() + delay), callback_(std::move(callback)) {
    wait(delay);
  }

 private:
  void wait(Duration left) {
    timer_ = loop_.call_after(left, [this] { look(); });
  }

  void look() {
    if (const Duration left = until_ - clock_.now(); left > Duration::zero()) {
      wait(left);
      return;
    }
    // It may destroy this timer.
    const EventLoop::Callback callback = std::move(callback_);
    callback();
  }

  EventLoop& loop_;
  const Clock& clock_;
  SteadyTime until_;
  EventLoop::Callback callback_;
  std::unique_ptr<EventLoop::Handle> timer_;
};

}  // namespace

std::unique_ptr<EventLoop::Handle> call_after(EventLoop& loop,
                                              const Clock& clock,
                                              Duration delay,
                                              EventLoop::Callback callback) {
  return std::make_unique<ClockTimer>(loop, clock, delay, std::move(callback));
}

}  // namespace phalanx::os
