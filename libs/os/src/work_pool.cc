// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/work_pool.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace phalanx::os {

struct WorkPool::State {
  explicit State(EventLoop& event_loop) : loop(event_loop) {}

  struct Entry {
    Job work;
    Job done;
  };

  EventLoop& loop;
  std::size_t queue_limit = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Entry> queue;  // guarded by mutex
  bool stopping = false;    // guarded by mutex
  bool alive = true;        // loop thread only: whether `done` may still run
  std::vector<std::thread> threads;

  void work_off(const std::shared_ptr<State>& self) {
    for (;;) {
      Entry entry;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return stopping || !queue.empty(); });
        if (stopping) {
          return;
        }
        entry = std::move(queue.front());
        queue.pop_front();
      }
      entry.work();
      entry.work = nullptr;
      loop.post([self, done = std::move(entry.done)] {
        if (self->alive) {
          done();
        }
      });
    }
  }
};

WorkPool::WorkPool(EventLoop& loop, const WorkPoolOptions& options)
    : state_(std::make_shared<State>(loop)) {
  state_->queue_limit = options.queue_limit;
  for (std::size_t i = 0; i < options.threads; ++i) {
    state_->threads.emplace_back([state = state_]() noexcept {
      ::pthread_setname_np(::pthread_self(), "work-pool");
      state->work_off(state);
    });
  }
}

WorkPool::~WorkPool() {
  state_->alive = false;
  std::deque<State::Entry> dropped;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    dropped.swap(state_->queue);
  }
  state_->changed.notify_all();
  for (std::thread& thread : state_->threads) {
    thread.join();
  }
}

Status WorkPool::submit(Job work, Job done) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->queue.size() >= state_->queue_limit) {
      return resource_exhausted("the work queue is full: " + std::to_string(state_->queue_limit) +
                                " jobs wait");
    }
    state_->queue.push_back({std::move(work), std::move(done)});
  }
  state_->changed.notify_one();
  return ok();
}

std::size_t WorkPool::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.size();
}

}  // namespace phalanx::os
