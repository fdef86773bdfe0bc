// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/base/thread_time.h"

namespace boost::asio {
class io_context;
}

namespace phalanx::os {

// The one loop thread of a process: timers, readable descriptors, posted work. Asio stays behind
// it; the libraries that need Asio itself (http, ipc) take io().
//
// Threads: everything runs on the thread that calls run(), and is called from it, except post() and
// stop(), which any thread may call. A callback may take kMaxCallbackTime of CPU time; longer work
// goes to a WorkPool.
class EventLoop {
 public:
  // A pending timer or watch. Destroying it cancels it: the callback does not run afterwards.
  class Handle {
   public:
    virtual ~Handle() = default;
  };
  using Callback = std::function<void()>;
  static constexpr Duration kMaxCallbackTime = std::chrono::milliseconds(2);

  // CPU time of the loop thread by callback, whoever of the program's parts made it.
  struct CallbackTimes {
    Duration longest{};
    const char* longest_name = "";  // as name_callback() had it
    std::uint64_t too_long = 0;     // callbacks above kMaxCallbackTime
  };

  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  ~EventLoop();

  // Runs `callback` once on the loop thread, soon.
  void post(Callback callback);

  // Runs `callback` once after `delay`.
  [[nodiscard]] std::unique_ptr<Handle> call_after(Duration delay, Callback callback);

  // Runs `callback` every `period`, first after one period. A late tick is not made up for.
  [[nodiscard]] std::unique_ptr<Handle> call_every(Duration period, Callback callback);

  // Runs `callback` each time `fd` is readable (level-triggered: it must read, or be cancelled).
  // The descriptor stays the caller's and must outlive the handle.
  //
  // Errors: kResourceExhausted  epoll watches as much as it may, or there is no memory
  //         kInternal           not a descriptor
  [[nodiscard]] Result<std::unique_ptr<Handle>> watch_readable(int fd, Callback callback);

  // Runs `callback(signal)` on the loop thread for each of SIGTERM, SIGINT, SIGHUP, SIGCHLD that is
  // passed here.
  [[nodiscard]] std::unique_ptr<Handle> watch_signal(int signal, std::function<void(int)> callback);

  // Runs until stop(). Blocks.
  void run();
  void stop();

  // The longest time a callback kept the loop from turning since the last call, for the loop-lag
  // metric.
  [[nodiscard]] Duration take_longest_lag();

  // Says what the callback under way does, so that CallbackTimes can tell which one was the
  // longest: of the names given in it, the one under which most of it went by. What comes before
  // the first belongs to that. `name` lives as long as the program.
  void name_callback(const char* name);

  // A bound on the CPU time of the callback under way, from its beginning. Cheaper than a
  // CpuTimeLimit of its own, which begins with a system call.
  [[nodiscard]] CpuTimeLimit callback_limit(Duration limit) const;

  // Since the loop began, or since reset_callback_times().
  [[nodiscard]] const CallbackTimes& callback_times() const;

  // The same, if a callback since the last call took longer than kMaxCallbackTime and than all
  // before it; otherwise null.
  [[nodiscard]] const CallbackTimes* take_new_longest();
  void reset_callback_times();

  [[nodiscard]] boost::asio::io_context& io();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phalanx::os
