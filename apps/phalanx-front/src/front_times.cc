// SPDX-License-Identifier: Apache-2.0
// What a front tells and tidies up each second.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "phalanx/base/clock.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/crash_record.h"
#include "phalanx/os/heap.h"

#include "front.h"

namespace phalanx::app {

namespace {

constexpr auto kTimesPeriod = std::chrono::seconds(1);

// Between two pieces of a journal that are given back.
constexpr auto kGiveBackPause = std::chrono::milliseconds(10);

}  // namespace

void Front::tick_each_second() {
  times_timer_ = loop_.call_every(kTimesPeriod, [this] {
    loop_.name_callback("times");
    left_.end_second();
    end_if_stuck();
    tell_times();
    give_back_journals();
    give_back_heap();
  });
}

// A thread cannot be ended, and what it holds cannot be taken from it: this process ends, as by a
// crash of that thread. Another front goes on with all connections, and tries the one that this was
// for alone.
void Front::end_if_stuck() {
  if (const auto connection = watch_.tick(running_clock().now())) {
    obs::log_error("work_does_not_end", {{"connection", *connection}});
    os::work_for(*connection);
    std::abort();
  }
}

// What a burst has left of its journals.
void Front::give_back_journals() {
  if (!journal_) {
    return;
  }
  journal_->end_second();
  if (give_back_timer_ || !journal_->give_back_some()) {
    return;
  }
  give_back_timer_ = loop_.call_every(kGiveBackPause, [this] {
    loop_.name_callback("journals given back");
    if (!journal_->give_back_some()) {
      give_back_timer_.reset();
    }
  });
}

// What long work has left, on the thread that does such: the heap of both pools is one.
void Front::give_back_heap() {
  if (heap_used_ && long_pool_.waiting() == 0) {
    heap_used_ = !long_pool_.submit([] { os::give_back_heap(); }, [] {}).has_value();
  }
}

void Front::tell_times() {
  const os::EventLoop::CallbackTimes& times = loop_.callback_times();
  if (const auto* const longest = loop_.take_new_longest()) {
    obs::log_debug(
        "longest_callback",
        {{"callback", longest->longest_name}, {"cpu_us", to_microseconds(longest->longest)}});
  }
  if (journal_ && journal_->lost() > std::exchange(lost_told_, journal_->lost())) {
    obs::log_warn("journal_full",
                  {{"connections", journal_->lost()},
                   {"bytes", journal_->bytes_in_use()},
                   {"hint", "these connections end if this front dies"}});
  }
  if (const std::uint64_t waits = server_->counters().memory_waits;
      waits > std::exchange(waits_told_, waits)) {
    obs::log_warn("clients_wait_for_memory",
                  {{"times", waits},
                   {"bytes", server_->memory_bytes()},
                   {"hint", "--client-memory-bytes is what all fronts may hold"}});
  }
  if (const std::uint64_t slow = server_->counters().clients_too_slow;
      slow > std::exchange(slow_told_, slow)) {
    obs::log_warn("clients_cut",
                  {{"total", slow},
                   {"hint",
                    "they took nothing for the write timeout, or left --stream-buffer-bytes of an "
                    "answer unread"}});
  }
  link_->send(
      wire::FrontTimes{static_cast<std::uint64_t>(to_microseconds(times.longest)),
                       times.too_long,
                       static_cast<std::uint64_t>(to_microseconds(loop_.take_longest_lag())),
                       obs::log_lines_dropped()});
}

}  // namespace phalanx::app
