// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "phalanx/base/result.h"
#include "phalanx/os/crash_record.h"
#include "phalanx/os/memfd.h"

namespace phalanx::os {

inline constexpr std::size_t kLifelineBytes = std::size_t{16} << 10;
inline constexpr std::size_t kProgressWords = 64;
inline constexpr std::size_t kFlightBytes = std::size_t{8} << 10;

// The memory that a parent shares with one incarnation of a child: a robust mutex that the child's
// main thread holds for life, progress words that move while it works, what its crash handler saw,
// and room for its last log lines.
//
// Made by the parent, one per incarnation.
// Threads: any.
class Lifeline {
 public:
  // Errors: kResourceExhausted.
  [[nodiscard]] static Result<Lifeline> create();

  // The child's side of what create() made.
  // Errors: kInvalidArgument if it is none of this build.
  [[nodiscard]] static Result<Lifeline> adopt(UniqueFd fd);

  [[nodiscard]] std::span<std::atomic<std::uint64_t>, kProgressWords> progress() const;
  [[nodiscard]] std::uint64_t progress_sum() const;
  [[nodiscard]] CrashRecord& crash_record() const;
  // The process that holds or held it, as it numbers itself; 0 before. Under a wrapper it is not
  // the one that the parent has started.
  [[nodiscard]] pid_t owner() const;
  // The same as a number of this process' namespace; 0 also if the owner counts processes in
  // another one, where a wrapper has put it.
  [[nodiscard]] pid_t owner_seen_here() const;
  [[nodiscard]] std::span<std::byte> flight_area() const;

  [[nodiscard]] int fd() const { return memfd_.fd(); }

 private:
  friend class LifelineOwner;
  friend class LifelineWatch;
  struct Page;
  Lifeline(Memfd memfd, Mapping mapping) : memfd_(std::move(memfd)), mapping_(std::move(mapping)) {}
  [[nodiscard]] Page* page() const;

  Memfd memfd_;
  Mapping mapping_;
};

// The child's hold on its lifeline. The kernel lets go of it in less than 0.1 ms when the thread
// dies, before it tears memory down; destroying it says that the child leaves in good order,
// fail() that it does not.
//
// Threads: the main thread of the child, which must also destroy it. The lifeline must outlive it.
class LifelineOwner {
 public:
  // Errors: kFailedPrecondition if this page had an owner before.
  [[nodiscard]] static Result<LifelineOwner> acquire(const Lifeline& lifeline);

  LifelineOwner(LifelineOwner&& other) noexcept;
  LifelineOwner& operator=(LifelineOwner&&) = delete;
  LifelineOwner(const LifelineOwner&) = delete;
  LifelineOwner& operator=(const LifelineOwner&) = delete;
  ~LifelineOwner();

  // Lets go of the lifeline as a death does: the watch tells of it at once, not when the process
  // has ended. For a child that ends in failure; afterwards nothing is held.
  void fail();

 private:
  explicit LifelineOwner(Lifeline::Page* page) : page_(page) {}
  void let_go(std::uint32_t how);
  Lifeline::Page* page_;
};

// The parent's watch: a thread that waits for the mutex. A child that dies before it held the
// lifeline is told by its pidfd only.
//
// Ownership: the lifeline must outlive the watch. Destroying it takes at most 500 ms, and the
// callback does not begin afterwards; an owner that is dead by then has been told of.
// Threads: `on_death` runs on the watching thread, at most once, and not for a child that left in
// good order; it must be short and thread-safe.
// Throws: std::system_error where no thread can be had.
class LifelineWatch {
 public:
  LifelineWatch(const Lifeline& lifeline, std::function<void()> on_death);
  LifelineWatch(const LifelineWatch&) = delete;
  LifelineWatch& operator=(const LifelineWatch&) = delete;
  ~LifelineWatch();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace phalanx::os
