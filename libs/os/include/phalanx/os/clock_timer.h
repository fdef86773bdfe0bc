// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "phalanx/base/clock.h"
#include "phalanx/os/event_loop.h"

namespace phalanx::os {

// Runs `callback` once on the loop thread when `delay` has passed by `clock`, which may go slower
// than the loop's own: by running_clock() it is as late as the process was stopped meanwhile. The
// clock must outlive the handle, whose destruction cancels the call.
[[nodiscard]] std::unique_ptr<EventLoop::Handle> call_after(EventLoop& loop,
                                                            const Clock& clock,
                                                            Duration delay,
                                                            EventLoop::Callback callback);

}  // namespace phalanx::os
