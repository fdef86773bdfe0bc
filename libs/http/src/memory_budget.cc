// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/memory_budget.h"

#include <utility>

namespace phalanx::http {

namespace {

// Each reads at most once from its socket.
constexpr int kAtOnce = 16;

}  // namespace

void MemoryBudget::Account::book(std::size_t bytes, Standing standing) {
  const bool is_less = bytes < bytes_ || standing == Standing::kGiven;
  budget_.held_[kind_] -= bytes_;
  bytes_ = bytes;
  kind_ = budget_.kind_of(bytes, standing);
  budget_.held_[kind_] += bytes_;
  if (is_less) {
    budget_.ask();
  }
}

bool MemoryBudget::Account::may_hold(std::size_t bytes, Standing standing) const {
  const std::size_t kind = budget_.kind_of(bytes, standing);
  return (budget_.lines_[kind].empty() || budget_.going_on_ == this) &&
         budget_.fits(*this, bytes, kind);
}

void MemoryBudget::Account::wait_for(std::size_t bytes, Standing standing) {
  if (waits()) {
    return;
  }
  wanted_ = bytes;
  wanted_kind_ = budget_.kind_of(bytes, standing);
  auto& line = budget_.lines_[wanted_kind_];
  place_ = line.insert(line.end(), this);
}

void MemoryBudget::Account::give_up() {
  if (!waits()) {
    return;
  }
  budget_.lines_[wanted_kind_].erase(*place_);
  place_.reset();
  budget_.ask();  // who is next may fit
}

void MemoryBudget::Account::close() {
  give_up();
  book(0, Standing::kBegins);
}

std::size_t MemoryBudget::held() const {
  return held_[kLarge] + held_[kSmall] + held_[kBeginning];
}

std::size_t MemoryBudget::waiting() const {
  return lines_[kLarge].size() + lines_[kSmall].size() + lines_[kBeginning].size();
}

std::size_t MemoryBudget::kind_of(std::size_t bytes, Standing standing) const {
  if (standing == Standing::kBegins) {
    return kBeginning;
  }
  return bytes > limit_ / 256 ? kLarge : kSmall;
}

bool MemoryBudget::fits(const Account& account, std::size_t bytes, std::size_t kind) const {
  std::array<std::size_t, kKinds> others = held_;
  others[account.kind_] -= account.bytes_;
  const std::size_t beside_large = others[kSmall] + others[kBeginning];
  if (others[kLarge] + beside_large == 0) {
    return true;
  }
  if (others[kLarge] + beside_large + bytes > limit_) {
    return false;
  }
  if (kind == kLarge) {
    return others[kLarge] == 0 || others[kLarge] + bytes <= limit_ / 4 * 3;
  }
  if (kind == kBeginning && others[kBeginning] + bytes > limit_ / 4) {
    return false;
  }
  return lines_[kLarge].empty() || beside_large + bytes <= limit_ / 4;
}

void MemoryBudget::ask() {
  if (waiting() > 0 && ask_ && !std::exchange(asked_, true)) {
    ask_();
  }
}

// Beginnings last: of each comes one more that waits for room for the rest.
MemoryBudget::Account* MemoryBudget::next() const {
  for (const std::list<Account*>& line : lines_) {
    if (!line.empty() && fits(*line.front(), line.front()->wanted_, line.front()->wanted_kind_)) {
      return line.front();
    }
  }
  return nullptr;
}

void MemoryBudget::go_on_some() {
  asked_ = false;
  for (int i = 0; i < kAtOnce; ++i) {
    Account* const account = next();
    if (account == nullptr) {
      return;
    }
    account->give_up();
    going_on_ = account;
    const std::function<void()> go_on = account->go_on_;  // it may end its account
    go_on();
    going_on_ = nullptr;
  }
  ask();
}

}  // namespace phalanx::http
