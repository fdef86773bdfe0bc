// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/error.h"
#include "phalanx/base/ids.h"
#include "phalanx/engine/progress_watch.h"
#include "phalanx/engine/step_fault.h"
#include "phalanx/wire/link.h"
#include "phalanx/wire/rank_messages.h"

namespace phalanx::engine {

// What a step can do to the ranks of its group. Calls return at once and never call back; what they
// cause arrives later as an event.
class RankPort {
 public:
  RankPort() = default;
  RankPort(const RankPort&) = delete;
  RankPort& operator=(const RankPort&) = delete;
  virtual ~RankPort() = default;

  // Hands `frame` to the link of the rank's present incarnation.
  [[nodiscard]] virtual wire::Sent send(RankId rank, std::string_view frame) = 0;

  // Raises the abort word of the present communicator, if there is one. Raising it again changes
  // nothing.
  virtual void raise_abort() = 0;

  // SIGKILL. The death is reported like any other, once the process is gone.
  virtual void kill(RankId rank) = 0;
};

// Names one operation. Two operations of a replica never have equal identities.
struct StepIdentity {
  Epoch epoch;
  StepId step;
  wire::RankOp op = wire::RankOp::kPing;
  friend bool operator==(const StepIdentity&, const StepIdentity&) = default;
};

struct StepLimits {
  std::uint32_t send_ticks = 50;   // a rank that takes no command for so long is faulty
  std::uint32_t hung_ticks = 50;   // … and so is a group in which nothing moves for so long
  std::uint32_t grace_ticks = 25;  // between the abort and the kill
};

// One operation on all ranks of a group: the only way to ask a rank for anything.
//
//   S1  a reply of another identity is counted and dropped.
//   S2  every rank that was sent to yields exactly one outcome: its reply, its death, or its kill;
//       done() is true only then, whatever else failed. Destroying a step that is not done raises
//       the abort and kills the ranks that still owe an outcome.
//   S3  waiting is bounded by progress: hung_ticks counted ticks in which no owing rank moved, then
//       the abort, then grace_ticks, then the kill.
//   S4  the first failure of any kind raises the abort at once, so that the others answer.
//   S6  fault() names every rank that failed.
//
// Event-driven: no sockets, threads, clocks or sleeping. Calls into `port` happen inside the calls
// below.
// Threads: one.
class CollectiveStep {
 public:
  // Sends `frame` (a RankCommand of this identity) to ranks 0 … ranks-1 in order. A link that is
  // closed fails the step at once and ends the fan-out; one that would block is tried again.
  CollectiveStep(RankPort& port,
                 const StepIdentity& identity,
                 std::string frame,
                 std::uint32_t ranks,
                 const StepLimits& limits,
                 SteadyTime now);
  CollectiveStep(const CollectiveStep&) = delete;
  CollectiveStep& operator=(const CollectiveStep&) = delete;
  ~CollectiveStep();

  // A reply that arrived on the link of `rank`. False: not for this step, dropped; the caller
  // counts it.
  [[nodiscard]] bool on_reply(RankId rank, const wire::RankReply& reply, SteadyTime now);
  void on_death(RankId rank, const RankDeath& death);
  void on_writable(RankId rank);  // a link may take the frame now
  void on_tick(const ProgressTick& tick);

  // The replica's own part failed, or something outside demands the end: the ranks are still
  // drained.
  void fail_own(Error error);

  // `rank` is known to be failing although it has not died yet (its lifeline is free, it was
  // stopped). Starts the abort; the outcome is still its reply, its death or its kill. False: it
  // owes nothing, and the step does not keep what is known of it.
  [[nodiscard]] bool suspect(RankId rank, Error error);

  // Requires done() and ok(). Every rank whose state hash differs from `expected` has diverged
  // (S9).
  void verify_state(std::uint64_t expected);

  [[nodiscard]] bool done() const { return owing_ == 0; }
  // The link of every rank has taken the command: another one sent now comes after it.
  [[nodiscard]] bool reached_all() const;
  // Every rank answered "done", and nothing else failed.
  [[nodiscard]] bool ok() const;
  [[nodiscard]] bool aborting() const { return aborting_; }
  [[nodiscard]] const StepIdentity& identity() const { return identity_; }

  // Requires done() and !ok().
  [[nodiscard]] StepFault fault() const;

  // Requires done(). The rank's reply; null if it gave none.
  [[nodiscard]] const wire::RankReply* reply(RankId rank) const;
  [[nodiscard]] Duration took(RankId rank) const;

  // Longest run of counted ticks without progress so far.
  [[nodiscard]] std::uint32_t longest_gap() const { return longest_gap_; }

 private:
  enum class State { kNotSent, kBlocked, kSent, kReplied, kDead, kKilled };
  struct Peer {
    State state = State::kNotSent;
    wire::RankReply reply;
    std::optional<RankFailure> failure;
    std::optional<Error> suspicion;
    Duration took{};
  };

  [[nodiscard]] static bool owes(const Peer& peer) {
    return peer.state == State::kBlocked || peer.state == State::kSent;
  }
  void fan_out();
  bool try_send(RankId rank);  // false: the link is closed
  void record_outcome(RankId rank, State state);
  void blame(RankId rank, RankFailure::Kind kind, Error error);
  void abort();
  void kill(RankId rank, Error error);
  void kill_owing(const Error& error);
  [[nodiscard]] bool has_moved(const ProgressTick& tick) const;
  void count_quiet_tick(bool moved);

  RankPort& port_;
  StepIdentity identity_;
  std::string frame_;
  StepLimits limits_;
  SteadyTime started_;
  std::vector<Peer> peers_;
  std::optional<Error> own_;
  std::uint32_t owing_ = 0;
  bool failed_ = false;
  bool aborting_ = false;
  bool hung_ = false;
  std::uint32_t blocked_ticks_ = 0;
  std::uint32_t quiet_ticks_ = 0;
  std::uint32_t longest_gap_ = 0;
  std::uint32_t grace_ticks_ = 0;
};

}  // namespace phalanx::engine
