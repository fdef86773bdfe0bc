// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "phalanx/base/ids.h"
#include "phalanx/wire/link.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::dispatch {

// Sends a message to the current incarnation of a replica, at once or not at all.
using SendToReplica =
    std::function<wire::Sent(ReplicaId replica, const wire::LeaderMessage& message)>;

// The effects (Submit and Cancel) on one incarnation of a replica, counted in the order in which
// its link took them: what the replica says of itself after so many effects can be compared
// exactly. A cancellation that the link does not take is kept until it does, once per key; so no
// more of them wait than the link has taken submissions.
//
// What a replica has not handled lies in the memory of the leader, the kernel and the replica, and
// a prompt of n choices n times. So submissions are bounded by their bytes, and not only by the
// frames that a link takes.
//
// Ownership: borrows the function.
// Threads: one.
// Blocks: never.
class ReplicaLink {
 public:
  // Of submissions that are not known to be handled, without their last one: a large one has to
  // wait for none that is smaller. A replica tells of what it has handled several times a second.
  static constexpr std::size_t kMaxUnhandledBytes = std::size_t{64} << 20;

  ReplicaLink(ReplicaId replica, const SendToReplica& send) : replica_(replica), send_(&send) {}

  // The number of this effect; nothing if the link does not take it now, or is full.
  [[nodiscard]] std::optional<std::uint64_t> submit(const wire::Submit& submit);

  // Sent now, or by flush(): later ones than kCancelsPerTurn wait for it.
  void cancel(const wire::SequenceKey& key);

  // Sends cancellations until the link takes no more, or it is enough for one turn: true if more
  // can be sent in the next one.
  [[nodiscard]] bool flush();

  // No submission is taken before the replica has handled some.
  [[nodiscard]] bool full() const { return unhandled_bytes_ >= kMaxUnhandledBytes; }

  // The replica has handled so many effects.
  void on_handled(std::uint64_t effects);

  // Is a cancellation of this key under way?
  [[nodiscard]] bool leaving(const wire::SequenceKey& key) const {
    return unsent_.contains(key) || sent_.contains(key);
  }
  [[nodiscard]] bool any_leaving() const { return !unsent_.empty() || !sent_.empty(); }
  [[nodiscard]] std::size_t unsent() const { return unsent_.size(); }

  // The incarnation is over: what it was to do is void.
  void reset();

 private:
  static constexpr std::size_t kCancelsPerTurn = 32;

  [[nodiscard]] bool send_cancel(const wire::SequenceKey& key);

  ReplicaId replica_;
  const SendToReplica* send_;
  std::uint64_t effects_ = 0;
  std::deque<std::pair<std::uint64_t, std::size_t>> unhandled_;  // bytes of submissions, by effect
  std::size_t unhandled_bytes_ = 0;                              // their sum
  std::size_t cancels_left_ = kCancelsPerTurn;
  std::set<wire::SequenceKey> unsent_;
  std::set<wire::SequenceKey> sent_;                               // not known to be handled
  std::deque<std::pair<std::uint64_t, wire::SequenceKey>> order_;  // of sent_, by effect
};

}  // namespace phalanx::dispatch
