// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/memory_budget.h"

#include <utility>

namespace phalanx::http {

namespace {

// Each reads at most once from its socket.
constexpr int kAtOnce = 16;

}  // namespace

void MemoryBudget::Account::book(std::size_t bytes) {
  const bool is_less = bytes < bytes_;
  budget_.held_ += bytes - bytes_;
  budget_.held_by_large_ -= budget_.is_large(bytes_) ? bytes_ : 0;
  budget_.held_by_large_ += budget_.is_large(bytes) ? bytes : 0;
  bytes_ = bytes;
  if (is_less) {
    budget_.ask();
  }
}

bool MemoryBudget::Account::may_hold(std::size_t bytes) const {
  const auto& line = budget_.is_large(bytes) ? budget_.large_line_ : budget_.small_line_;
  return (line.empty() || budget_.going_on_ == this) && budget_.fits(*this, bytes);
}

void MemoryBudget::Account::wait_for(std::size_t bytes) {
  if (waits()) {
    return;
  }
  wanted_ = bytes;
  in_large_line_ = budget_.is_large(bytes);
  auto& line = in_large_line_ ? budget_.large_line_ : budget_.small_line_;
  place_ = line.insert(line.end(), this);
}

void MemoryBudget::Account::give_up() {
  if (!waits()) {
    return;
  }
  (in_large_line_ ? budget_.large_line_ : budget_.small_line_).erase(*place_);
  place_.reset();
  budget_.ask();  // who is next may fit
}

void MemoryBudget::Account::close() {
  give_up();
  book(0);
}

bool MemoryBudget::fits(const Account& account, std::size_t bytes) const {
  const std::size_t others = held_ - account.bytes_;
  if (others == 0) {
    return true;
  }
  if (others + bytes > limit_) {
    return false;
  }
  const std::size_t own_large = is_large(account.bytes_) ? account.bytes_ : 0;
  const std::size_t large = held_by_large_ - own_large;
  if (is_large(bytes)) {
    return large == 0 || large + bytes <= limit_ / 4 * 3;
  }
  return large_line_.empty() || others - large + bytes <= limit_ / 4;
}

void MemoryBudget::ask() {
  if (waiting() > 0 && ask_ && !std::exchange(asked_, true)) {
    ask_();
  }
}

void MemoryBudget::go_on_some() {
  asked_ = false;
  for (int i = 0; i < kAtOnce; ++i) {
    // Large ones first: what small ones may have beside them depends on whether one waits.
    Account* next = nullptr;
    for (std::list<Account*>* const line : {&large_line_, &small_line_}) {
      if (next == nullptr && !line->empty() && fits(*line->front(), line->front()->wanted_)) {
        next = line->front();
      }
    }
    if (next == nullptr) {
      return;
    }
    next->give_up();
    going_on_ = next;
    const std::function<void()> go_on = next->go_on_;  // it may end its account
    go_on();
    going_on_ = nullptr;
  }
  ask();
}

}  // namespace phalanx::http
