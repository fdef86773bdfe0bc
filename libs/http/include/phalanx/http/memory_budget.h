// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <utility>

namespace phalanx::http {

// Bytes that clients make a server hold, and who waits to send more.
//
// What is held is booked and never refused; only who would make it more asks before, and waits in
// the order of arrival while there is no room. So that nobody waits in a circle, a client is given
// room for all that it will send before that is read, and what was read of those that wait for it
// is at most a quarter of the limit, and one read: no client may want more than half.
//
// A client that is given more than a 256th of the limit is large. Large ones are given at most
// three quarters of it together, so that small ones go on beside them; while a large one waits, the
// others are given no more than the last quarter, so that its turn comes.
//
// Threads: one. Blocks: never.
class MemoryBudget {
 public:
  // What a client has, or wants: a beginning, of which nobody knows yet what it will come to, or
  // room for all of it.
  enum class Standing { kBegins, kGiven };

  explicit MemoryBudget(std::size_t limit) : limit_(limit) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;
  ~MemoryBudget() = default;

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
    void book(std::size_t bytes, Standing standing);

    // Whether it may come to hold so much: there is room, and nobody of its kind waits before it.
    // What a client holds alone is always given.
    [[nodiscard]] bool may_hold(std::size_t bytes, Standing standing) const;

    // Until may_hold(), behind those of its kind who wait already. Not if it waits.
    void wait_for(std::size_t bytes, Standing standing);
    void give_up();
    [[nodiscard]] bool waits() const { return place_.has_value(); }

    void close();
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

   private:
    friend class MemoryBudget;
    MemoryBudget& budget_;
    std::function<void()> go_on_;
    std::size_t bytes_ = 0;
    std::size_t kind_ = 0;
    std::size_t wanted_ = 0;  // while it waits
    std::size_t wanted_kind_ = 0;
    std::optional<std::list<Account*>::iterator> place_;
  };

  // go_on_some() is to follow in another turn of the loop. Runs at most once before each.
  void on_room(std::function<void()> ask) { ask_ = std::move(ask); }

  // Lets a few of those go on for whom there is room now, the first ones first.
  void go_on_some();

  [[nodiscard]] bool exceeded() const { return held() > limit_; }
  [[nodiscard]] std::size_t held() const;
  [[nodiscard]] std::size_t waiting() const;

 private:
  static constexpr std::size_t kLarge = 0;
  static constexpr std::size_t kSmall = 1;
  static constexpr std::size_t kBeginning = 2;
  static constexpr std::size_t kKinds = 3;

  [[nodiscard]] std::size_t kind_of(std::size_t bytes, Standing standing) const;
  [[nodiscard]] bool fits(const Account& account, std::size_t bytes, std::size_t kind) const;
  [[nodiscard]] Account* next() const;
  void ask();

  std::size_t limit_;
  std::array<std::size_t, kKinds> held_{};
  std::array<std::list<Account*>, kKinds> lines_;
  const Account* going_on_ = nullptr;  // whose turn it is
  std::function<void()> ask_;
  bool asked_ = false;
};

}  // namespace phalanx::http
