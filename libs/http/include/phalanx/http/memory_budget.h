// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <utility>

namespace phalanx::http {

// Bytes that clients make a server hold, and who waits to send more.
//
// What is held is booked and never refused; only who would make it more asks before, and waits in
// the order of arrival while there is no room. Who is given room for all that he will send before
// any of it is read needs nothing that another one holds, so that nobody waits in a circle.
//
// A client that holds more than a 256th of the limit is large. Large ones together are given at
// most three quarters of it and wait in a line of their own, so that however many of them come,
// small ones go on; while a large one waits, small ones are given no more than the last quarter, so
// that its turn comes.
//
// Threads: one. Blocks: never.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t limit) : limit_(limit) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // What one client holds. Ends with nothing booked and without waiting.
  class Account {
   public:
    // `go_on` runs when a wait is over, from go_on_some(). The budget outlives the account.
    Account(MemoryBudget& budget, std::function<void()> go_on)
        : budget_(budget), go_on_(std::move(go_on)) {}
    Account(const Account&) = delete;
    Account& operator=(const Account&) = delete;
    ~Account() { close(); }

    // So much is held from now on, whatever the limit is.
    void book(std::size_t bytes);

    // Whether it may come to hold so much: there is room, and nobody waits before it. What a client
    // holds alone is always given.
    [[nodiscard]] bool may_hold(std::size_t bytes) const;

    // Until may_hold(bytes), behind those who wait already. Not if it waits.
    void wait_for(std::size_t bytes);
    void give_up();
    [[nodiscard]] bool waits() const { return place_.has_value(); }

    void close();
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

   private:
    friend class MemoryBudget;
    MemoryBudget& budget_;
    std::function<void()> go_on_;
    std::size_t bytes_ = 0;
    std::size_t wanted_ = 0;  // while it waits
    bool in_large_line_ = false;
    std::optional<std::list<Account*>::iterator> place_;
  };

  // go_on_some() is to follow in another turn of the loop. Runs at most once before each.
  void on_room(std::function<void()> ask) { ask_ = std::move(ask); }

  // Lets a few of those go on for whom there is room now, the first ones first.
  void go_on_some();

  [[nodiscard]] bool exceeded() const { return held_ > limit_; }
  [[nodiscard]] std::size_t held() const { return held_; }
  [[nodiscard]] std::size_t waiting() const { return small_line_.size() + large_line_.size(); }

 private:
  [[nodiscard]] bool is_large(std::size_t bytes) const { return bytes > limit_ / 256; }
  [[nodiscard]] bool fits(const Account& account, std::size_t bytes) const;
  void ask();

  std::size_t limit_;
  std::size_t held_ = 0;
  std::size_t held_by_large_ = 0;
  std::list<Account*> small_line_;
  std::list<Account*> large_line_;
  const Account* going_on_ = nullptr;  // whose turn it is
  std::function<void()> ask_;
  bool asked_ = false;
};

}  // namespace phalanx::http
