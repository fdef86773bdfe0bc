// SPDX-License-Identifier: Apache-2.0
#include "phalanx/front/large_turns.h"

#include <utility>

#include "phalanx/base/thread_time.h"

namespace phalanx::front {

void LargeTurns::add(LargeConnection connection, bool is_awaited) {
  (is_awaited ? awaited_ : others_).push_back(std::move(connection));
  arm(kFirstPause);
}

void LargeTurns::hurry() {
  hurries_ = true;
  arm(kPause);
}

// A pause that has begun ends where it is not needed any more.
void LargeTurns::arm(Duration pause) {
  const bool without_pause = hurries_ || !awaited_.empty();
  if ((awaited_.empty() && others_.empty()) || (timer_ && (without_pause_ || !without_pause))) {
    return;
  }
  without_pause_ = without_pause;
  timer_ = loop_.call_after(without_pause ? Duration::zero() : pause, [this] { turn(); });
}

void LargeTurns::turn() {
  loop_.name_callback("large requests go on");
  if (!awaited_.empty()) {
    serve_next(awaited_);
  } else {
    const CpuTimeLimit limit(kTurnTime);
    do {
      serve_next(others_);
    } while (!others_.empty() && awaited_.empty() && !limit.passed());
  }
  timer_.reset();
  arm(kPause);
}

void LargeTurns::serve_next(std::deque<LargeConnection>& queue) {
  LargeConnection next = std::move(queue.front());
  queue.pop_front();
  serve_(std::move(next));
}

}  // namespace phalanx::front
