// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/lifeline.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <new>
#include <thread>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/os/futex.h"

namespace phalanx::os {

namespace {

constexpr std::uint64_t kMark = 0x70686C78'00000006ULL;  // layout 6
constexpr Duration kSlice = std::chrono::milliseconds(500);

enum Ownership : std::uint32_t { kNobody = 0, kOwned = 1, kReleased = 2, kFailed = 3 };

timespec monotonic_after(Duration duration) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t nanoseconds = now.tv_nsec + std::chrono::nanoseconds(duration).count();
  now.tv_sec += nanoseconds / 1'000'000'000;
  now.tv_nsec = nanoseconds % 1'000'000'000;
  return now;
}

// 0 where there is no /proc.
ino_t own_pid_namespace() {
  struct stat file {};
  return ::stat("/proc/self/ns/pid", &file) == 0 ? file.st_ino : 0;
}

}  // namespace

// Words that are written at different rates lie on lines of their own.
struct Lifeline::Page {
  std::uint64_t mark = kMark;
  std::atomic<std::uint32_t> ownership{kNobody};
  pthread_mutex_t mutex{};
  alignas(64) CrashRecord crash;
  std::atomic<pid_t> owner{0};
  std::atomic<ino_t> pid_namespace{0};  // of the owner; 0: unknown
  // One cache line each would make the page eight times as large for words that move once per
  // group of tiles.
  alignas(64) std::array<std::atomic<std::uint64_t>, kProgressWords> progress{};
  alignas(64) std::array<std::byte, kFlightBytes> flight{};
};

Lifeline::Page* Lifeline::page() const {
  return std::launder(reinterpret_cast<Page*>(mapping_.data()));
}

Result<Lifeline> Lifeline::create() {
  static_assert(sizeof(Page) <= kLifelineBytes);
  PHALANX_TRY(Memfd memfd, Memfd::create("phalanx-lifeline", kLifelineBytes));
  PHALANX_TRY(Mapping mapping, memfd.map(Access::kReadWrite));
  auto* page = new (mapping.data()) Page;
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int code = ::pthread_mutex_init(&page->mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
  if (code != 0) {
    return errno_error("making the mutex of a lifeline", code);
  }
  return Lifeline(std::move(memfd), std::move(mapping));
}

Result<Lifeline> Lifeline::adopt(UniqueFd fd) {
  PHALANX_TRY(Memfd memfd, Memfd::adopt(std::move(fd), kLifelineBytes));
  PHALANX_TRY(Mapping mapping, memfd.map(Access::kReadWrite));
  Lifeline lifeline(std::move(memfd), std::move(mapping));
  if (lifeline.page()->mark != kMark) {
    return invalid_argument("a received lifeline page has another layout than this build's");
  }
  return lifeline;
}

std::span<std::atomic<std::uint64_t>, kProgressWords> Lifeline::progress() const {
  return page()->progress;
}

CrashRecord& Lifeline::crash_record() const {
  return page()->crash;
}

pid_t Lifeline::owner() const {
  return page()->owner.load(std::memory_order_acquire);
}

pid_t Lifeline::owner_seen_here() const {
  const pid_t pid = owner();
  const ino_t there = page()->pid_namespace.load(std::memory_order_relaxed);
  const ino_t here = own_pid_namespace();
  const bool is_foreign = there != 0 && here != 0 && there != here;
  return is_foreign ? 0 : pid;
}

std::span<std::byte> Lifeline::flight_area() const {
  return page()->flight;
}

std::uint64_t Lifeline::progress_sum() const {
  std::uint64_t sum = 0;
  for (const auto& word : page()->progress) {
    sum += word.load(std::memory_order_relaxed);
  }
  return sum;
}

Result<LifelineOwner> LifelineOwner::acquire(const Lifeline& lifeline) {
  Lifeline::Page* page = lifeline.page();
  const int code = ::pthread_mutex_trylock(&page->mutex);
  if (code == EOWNERDEAD) {
    ::pthread_mutex_unlock(&page->mutex);
  }
  if (code != 0 || page->ownership.load(std::memory_order_relaxed) != kNobody) {
    if (code == 0) {
      ::pthread_mutex_unlock(&page->mutex);
    }
    return failed_precondition("this lifeline page had an owner before; each life needs its own");
  }
  page->pid_namespace.store(own_pid_namespace(), std::memory_order_relaxed);
  page->owner.store(::getpid(), std::memory_order_release);
  page->ownership.store(kOwned, std::memory_order_release);
  futex_wake_all(page->ownership);
  return LifelineOwner(page);
}

LifelineOwner::LifelineOwner(LifelineOwner&& other) noexcept
    : page_(std::exchange(other.page_, nullptr)) {}

LifelineOwner::~LifelineOwner() {
  let_go(kReleased);
}

void LifelineOwner::fail() {
  let_go(kFailed);
}

void LifelineOwner::let_go(std::uint32_t how) {
  if (Lifeline::Page* const page = std::exchange(page_, nullptr); page != nullptr) {
    page->ownership.store(how, std::memory_order_release);
    ::pthread_mutex_unlock(&page->mutex);
  }
}

struct LifelineWatch::State {
  Lifeline::Page* page = nullptr;
  std::function<void()> on_death;
  std::atomic<bool> stop{false};
  std::thread thread;

  // False: the watch was stopped, or the owner left in good order.
  [[nodiscard]] bool wait_for_death() const {
    while (page->ownership.load(std::memory_order_acquire) == kNobody) {
      if (stop.load(std::memory_order_acquire)) {
        return false;
      }
      futex_wait(page->ownership, kNobody, kSlice);
    }
    for (;;) {
      // Looked at before the lock is tried: a watch that is ended after a death still tells of it.
      const bool last = stop.load(std::memory_order_acquire);
      const timespec deadline = monotonic_after(last ? Duration::zero() : kSlice);
      const int code = ::pthread_mutex_clocklock(&page->mutex, CLOCK_MONOTONIC, &deadline);
      if (code == ETIMEDOUT) {
        if (last) {
          break;
        }
        continue;
      }
      if (code == 0) {
        ::pthread_mutex_unlock(&page->mutex);
        return page->ownership.load(std::memory_order_acquire) == kFailed;
      }
      if (code == EOWNERDEAD) {
        // Never made consistent: the page is not used again.
        ::pthread_mutex_unlock(&page->mutex);
      }
      // EOWNERDEAD, or ENOTRECOVERABLE when another watch saw it first.
      return true;
    }
    return false;
  }
};

LifelineWatch::LifelineWatch(const Lifeline& lifeline, std::function<void()> on_death)
    : state_(std::make_unique<State>()) {
  state_->page = lifeline.page();
  state_->on_death = std::move(on_death);
  state_->thread = std::thread([state = state_.get()]() noexcept {
    ::pthread_setname_np(::pthread_self(), "lifeline-watch");
    if (state->wait_for_death()) {
      state->on_death();
    }
  });
}

LifelineWatch::~LifelineWatch() {
  state_->stop.store(true, std::memory_order_release);
  // A page that has no owner gets none any more: a wait that is about to begin ends at once.
  std::uint32_t nobody = kNobody;
  state_->page->ownership.compare_exchange_strong(nobody, kReleased);
  futex_wake_all(state_->page->ownership);
  state_->thread.join();
}

}  // namespace phalanx::os
