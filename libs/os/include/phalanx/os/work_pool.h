// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "phalanx/base/result.h"
#include "phalanx/os/event_loop.h"

namespace phalanx::os {

struct WorkPoolOptions {
  std::size_t threads = 2;
  std::size_t queue_limit = 256;  // jobs that wait for a thread
};

// A few threads for work that would hold up the loop: parsing and tokenizing large bodies, writing
// files.
//
// Threads: submit() on the loop thread; jobs run on pool threads, `done` on the loop thread.
// Ownership: the loop must outlive the pool. Destroying the pool drops the jobs that have not
// begun and waits for those that have; no `done` runs afterwards.
class WorkPool {
 public:
  using Job = std::function<void()>;

  WorkPool(EventLoop& loop, const WorkPoolOptions& options);
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;
  ~WorkPool();

  // Runs `work` on a pool thread, then `done` on the loop. `work` must not throw.
  // Errors: kResourceExhausted when the queue is full: nothing runs.
  [[nodiscard]] Status submit(Job work, Job done);

  [[nodiscard]] std::size_t waiting() const;  // jobs that have not begun

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace phalanx::os
