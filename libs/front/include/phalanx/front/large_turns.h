// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>

#include "phalanx/base/clock.h"
#include "phalanx/front/left_journal.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/unique_fd.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::front {

// A connection that another front has left, and that takes long to go on with. It holds no
// descriptor but its socket, so that however many wait need no more than when they are served.
struct LargeConnection {
  wire::Connect connection;
  os::UniqueFd socket;
  std::shared_ptr<const LeftJournal> left;
};

// Turns of such connections between the other work of the loop. Those whose clients wait for an
// answer come first, one in each turn of the loop and without a pause. The others have only sent
// something: they come when none of those waits and what came with them has gone on, as many as
// kTurnTime has room for, one at least, with pauses between.
//
// Ownership: borrows the loop.
// Threads: the loop thread. `serve` may add.
class LargeTurns {
 public:
  static constexpr Duration kTurnTime = std::chrono::milliseconds(2);  // of CPU
  static constexpr Duration kFirstPause = std::chrono::milliseconds(20);
  static constexpr Duration kPause = std::chrono::milliseconds(10);

  LargeTurns(os::EventLoop& loop, std::function<void(LargeConnection)> serve)
      : loop_(loop), serve_(std::move(serve)) {}
  LargeTurns(const LargeTurns&) = delete;
  LargeTurns& operator=(const LargeTurns&) = delete;
  ~LargeTurns() = default;

  void add(LargeConnection connection, bool is_awaited);

  // There is nobody left to make room for: no more pauses.
  void hurry();

 private:
  void arm(Duration pause);
  void turn();
  void serve_next(std::deque<LargeConnection>& queue);

  os::EventLoop& loop_;
  std::function<void(LargeConnection)> serve_;
  std::deque<LargeConnection> awaited_;
  std::deque<LargeConnection> others_;
  bool hurries_ = false;
  bool without_pause_ = false;                    // as timer_ was armed
  std::unique_ptr<os::EventLoop::Handle> timer_;  // while there are some
};

}  // namespace phalanx::front
