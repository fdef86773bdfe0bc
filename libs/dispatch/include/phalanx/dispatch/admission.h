// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/base/result.h"

namespace phalanx::dispatch {

struct AdmissionLimits {
  std::uint64_t requests = 4096;                   // --max-num-queued-reqs
  std::uint64_t tokens = std::uint64_t{1} << 23U;  // --max-num-queued-tokens
};

// Bounds what the leader holds, before a request is parsed: at first a body is booked with a token
// for four bytes, about what tokens have in texts, so that a burst of bodies that are not read yet
// is not refused for what they will not come to; after tokenization by the tokens of all its
// prompts and choices, until the last of them has ended. So texts of shorter tokens may come to
// more than the limit, four times at most, until they end.
//
// A body of more than a sixteenth of the token limit is large. Large bodies together hold at most
// three quarters of the limit, so that however many of them come, small ones find a place. One body
// is booked with at most half of that, so that it finds a place beside others.
//
// Threads: one.
class Admission {
 public:
  explicit Admission(AdmissionLimits limits) : limits_(limits) {}

  // A place for one body; returned when it is destroyed. Ownership: the Admission must outlive
  // it.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    Ticket(Ticket&& other) noexcept;
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket();

    // Replaces the booked amount.
    // Errors: kResourceExhausted for a large body beside which the other large ones leave no room;
    // the ticket is as before. A small one is never refused.
    [[nodiscard]] Status correct(std::uint64_t tokens);

   private:
    friend class Admission;
    Ticket(Admission* owner, std::uint64_t tokens) : owner_(owner), tokens_(tokens) {}
    Admission* owner_ = nullptr;
    std::uint64_t tokens_ = 0;
  };

  // Errors: kResourceExhausted naming the limit, what it is and what is queued. A request is always
  // admitted when nothing else is there, however large it is: its own limits are checked later.
  [[nodiscard]] Result<Ticket> admit(std::uint64_t body_bytes);

  [[nodiscard]] std::uint64_t requests() const { return requests_; }
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }

 private:
  [[nodiscard]] bool is_large(std::uint64_t tokens) const { return tokens > limits_.tokens / 16; }
  [[nodiscard]] std::uint64_t for_large() const { return limits_.tokens / 4 * 3; }
  [[nodiscard]] std::uint64_t booked_for(std::uint64_t tokens) const;
  [[nodiscard]] Status check_large(std::uint64_t tokens) const;
  void add(std::uint64_t tokens);
  void remove(std::uint64_t tokens);

  AdmissionLimits limits_;
  std::uint64_t requests_ = 0;
  std::uint64_t tokens_ = 0;
  std::uint64_t large_tokens_ = 0;  // of tokens_, those of large bodies
};

}  // namespace phalanx::dispatch
