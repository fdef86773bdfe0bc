// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/event_loop.h"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>

#include "phalanx/base/thread_time.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr const char* kUnnamed = "unnamed";

// Every handle shares its state with the pending operation, so that an operation that completes
// after the handle is gone finds nobody to call.
class TimerHandle final : public EventLoop::Handle {
 public:
  struct State {
    explicit State(asio::io_context& io) : timer(io) {}
    asio::steady_timer timer;
    EventLoop::Callback callback;
    Duration period{};
    bool live = true;
  };

  TimerHandle(asio::io_context& io, Duration delay, Duration period, EventLoop::Callback callback)
      : state_(std::make_shared<State>(io)) {
    state_->callback = std::move(callback);
    state_->period = period;
    state_->timer.expires_after(delay);
    wait(state_);
  }
  TimerHandle(const TimerHandle&) = delete;
  TimerHandle& operator=(const TimerHandle&) = delete;
  // NOLINTNEXTLINE(bugprone-exception-escape): cancel() of a steady timer has no way to fail
  ~TimerHandle() override {
    state_->live = false;
    state_->timer.cancel();
  }

 private:
  static void wait(const std::shared_ptr<State>& state) {
    state->timer.async_wait([state](error_code error) {
      if (error || !state->live) {
        return;
      }
      if (state->period > Duration::zero()) {
        // From now, not from the last expiry: a late tick is not made up for.
        state->timer.expires_after(state->period);
        wait(state);
      }
      state->callback();
    });
  }

  std::shared_ptr<State> state_;
};

class ReadableHandle final : public EventLoop::Handle {
 public:
  struct State {
    State(asio::io_context& io, int fd) : descriptor(io, fd) {}
    asio::posix::stream_descriptor descriptor;
    EventLoop::Callback callback;
    bool live = true;
  };

  ReadableHandle(asio::io_context& io, int fd, EventLoop::Callback callback)
      : state_(std::make_shared<State>(io, fd)) {
    state_->callback = std::move(callback);
    wait(state_);
  }
  ReadableHandle(const ReadableHandle&) = delete;
  ReadableHandle& operator=(const ReadableHandle&) = delete;
  ~ReadableHandle() override {
    state_->live = false;
    state_->descriptor.release();  // the descriptor stays the caller's
  }

 private:
  static void wait(const std::shared_ptr<State>& state) {
    state->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                 [state](error_code error) {
                                   if (error || !state->live) {
                                     return;
                                   }
                                   state->callback();
                                   if (state->live) {
                                     wait(state);
                                   }
                                 });
  }

  std::shared_ptr<State> state_;
};

class SignalHandle final : public EventLoop::Handle {
 public:
  struct State {
    State(asio::io_context& io, int signal) : signals(io, signal) {}
    asio::signal_set signals;
    std::function<void(int)> callback;
    bool live = true;
  };

  SignalHandle(asio::io_context& io, int signal, std::function<void(int)> callback)
      : state_(std::make_shared<State>(io, signal)) {
    state_->callback = std::move(callback);
    wait(state_);
  }
  SignalHandle(const SignalHandle&) = delete;
  SignalHandle& operator=(const SignalHandle&) = delete;
  ~SignalHandle() override {
    state_->live = false;
    error_code ignored;
    // clear() alone leaves the wait pending: it would keep the state, and the state the wait.
    state_->signals.cancel(ignored);
    state_->signals.clear(ignored);
  }

 private:
  static void wait(const std::shared_ptr<State>& state) {
    state->signals.async_wait([state](error_code error, int signal) {
      if (error || !state->live) {
        return;
      }
      wait(state);
      state->callback(signal);
    });
  }

  std::shared_ptr<State> state_;
};

}  // namespace

struct EventLoop::Impl {
  // `callback`, which notes when it begins: a turn of the loop waits for it first.
  [[nodiscard]] Callback noting_begin(Callback callback) {
    return [this, callback = std::move(callback)] {
      began = steady_clock().now();
      callback();
    };
  }

  void note_end() {
    if (began != SteadyTime()) {
      longest_lag =
          std::max(longest_lag, steady_clock().now() - std::exchange(began, SteadyTime()));
    }
  }

  void run_timed() {
    callback_began = thread_cpu_time();
    part_began = callback_began;
    while (io.run_one() > 0) {
      note_end();
      const Duration now = thread_cpu_time();
      const Duration taken = now - std::exchange(callback_began, now);
      end_part(now);
      name = kUnnamed;
      const Part longest = std::exchange(longest_part, Part());
      if (std::exchange(forget_this, false)) {
        continue;
      }
      if (taken > times.longest) {
        times.longest = taken;
        times.longest_name = longest.name;
      }
      times.too_long += taken > kMaxCallbackTime ? 1U : 0U;
    }
  }

  void end_part(Duration now) {
    const Duration taken = now - std::exchange(part_began, now);
    if (taken >= longest_part.time) {
      longest_part = {taken, name};
    }
  }

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  SteadyTime began{};  // the callback under way; none: not yet
  Duration longest_lag{};
  CallbackTimes times;
  Duration longest_taken{};
  const char* name = kUnnamed;
  // Of the callback under way, what has gone by one name.
  struct Part {
    Duration time{};
    const char* name = kUnnamed;
  };
  Duration callback_began{};  // CPU time, as all below
  Duration part_began{};
  Part longest_part;
  bool forget_this = false;  // the callback under way, in which times were reset
};

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}

EventLoop::~EventLoop() = default;

void EventLoop::post(Callback callback) {
  asio::post(impl_->io, impl_->noting_begin(std::move(callback)));
}

std::unique_ptr<EventLoop::Handle> EventLoop::call_after(Duration delay, Callback callback) {
  return std::make_unique<TimerHandle>(
      impl_->io, delay, Duration::zero(), impl_->noting_begin(std::move(callback)));
}

std::unique_ptr<EventLoop::Handle> EventLoop::call_every(Duration period, Callback callback) {
  return std::make_unique<TimerHandle>(
      impl_->io, period, period, impl_->noting_begin(std::move(callback)));
}

Result<std::unique_ptr<EventLoop::Handle>> EventLoop::watch_readable(int fd, Callback callback) {
  try {
    std::unique_ptr<Handle> handle =
        std::make_unique<ReadableHandle>(impl_->io, fd, impl_->noting_begin(std::move(callback)));
    return handle;
  } catch (const boost::system::system_error& error) {
    const int code = error.code().value();
    return errno_error(
        "watching a descriptor is refused by " + std::string(limit_of_descriptors(code)), code);
  }
}

std::unique_ptr<EventLoop::Handle> EventLoop::watch_signal(int signal,
                                                           std::function<void(int)> callback) {
  auto noting_begin = [impl = impl_.get(), callback = std::move(callback)](int number) {
    impl->began = steady_clock().now();
    callback(number);
  };
  return std::make_unique<SignalHandle>(impl_->io, signal, std::move(noting_begin));
}

void EventLoop::run() {
  impl_->run_timed();
  impl_->io.restart();  // behind it: a stop that comes before the next run counts
}

void EventLoop::stop() {
  impl_->io.stop();
}

Duration EventLoop::take_longest_lag() {
  return std::exchange(impl_->longest_lag, Duration::zero());
}

void EventLoop::name_callback(const char* name) {
  // The clock costs a system call, and few callbacks have two names.
  if (impl_->name != kUnnamed && impl_->name != name) {
    impl_->end_part(thread_cpu_time());
  }
  impl_->name = name;
}

CpuTimeLimit EventLoop::callback_limit(Duration limit) const {
  return {limit, impl_->callback_began};
}

const EventLoop::CallbackTimes& EventLoop::callback_times() const {
  return impl_->times;
}

const EventLoop::CallbackTimes* EventLoop::take_new_longest() {
  const Duration before = std::exchange(impl_->longest_taken, impl_->times.longest);
  return impl_->times.longest > std::max(before, kMaxCallbackTime) ? &impl_->times : nullptr;
}

void EventLoop::reset_callback_times() {
  impl_->times = {};
  impl_->longest_taken = {};
  impl_->forget_this = true;
}

asio::io_context& EventLoop::io() {
  return impl_->io;
}

}  // namespace phalanx::os
