// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "phalanx/base/result.h"
#include "phalanx/os/memfd.h"

namespace phalanx::os {

// The page that a parent shares with one incarnation of a child. Its robust mutex is locked by the
// child's main thread for life: the kernel releases it before it tears the memory down, so the
// death is known in less than 0.1 ms at any size, long before the pidfd is readable. The progress
// word moves while the child works.
//
// Made by the parent, one per incarnation. Threads: progress() from any.
class LifelinePage {
 public:
  // The parent makes one. Errors: kResourceExhausted.
  [[nodiscard]] static Result<LifelinePage> create();

  // The child maps the one it was given. Errors: kInvalidArgument if it is none.
  [[nodiscard]] static Result<LifelinePage> open(Memfd memfd);

  LifelinePage(LifelinePage&&) noexcept;
  LifelinePage& operator=(LifelinePage&&) noexcept;
  ~LifelinePage();

  // The child's main thread, once, before anything that can fail slowly; held until the thread
  // ends. Errors: kFailedPrecondition if somebody has locked it before.
  [[nodiscard]] Status hold();

  [[nodiscard]] std::atomic<std::uint64_t>& progress();

  // Whether the child has ever locked it.
  [[nodiscard]] bool was_held() const;

  [[nodiscard]] const Memfd& memfd() const { return memfd_; }

 private:
  friend class LifelineWatch;
  struct Layout;
  LifelinePage(Memfd memfd, Mapping mapping)
      : memfd_(std::move(memfd)), mapping_(std::move(mapping)) {}
  [[nodiscard]] Layout& layout();
  [[nodiscard]] const Layout& layout() const;

  Memfd memfd_;
  Mapping mapping_;
};

// Tells the parent that a child's main thread has ended: a thread that waits for the mutex. It
// begins to wait when the child has locked it (or a bounded time later gives up on a child that
// never does; its pidfd tells then).
//
// Ownership: keeps the page. Destroying it takes at most 100 ms and the callback does not run
// afterwards. Threads:   `on_free` runs on the watching thread, at most once; it must be short and
// thread-safe.
class LifelineWatch {
 public:
  LifelineWatch(std::shared_ptr<LifelinePage> page, std::function<void()> on_free);
  LifelineWatch(const LifelineWatch&) = delete;
  LifelineWatch& operator=(const LifelineWatch&) = delete;
  ~LifelineWatch();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace phalanx::os
