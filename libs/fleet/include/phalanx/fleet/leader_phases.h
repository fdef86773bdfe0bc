// SPDX-License-Identifier: Apache-2.0
// The life of a server as a pure table. Nothing here has a process or a socket: the leader feeds
// events and performs actions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/base/clock.h"
#include "phalanx/base/error.h"

namespace phalanx::fleet {

enum class Phase : std::uint8_t {
  kLoading,   // the weights are read
  kStarting,  // the replicas are started; none has been ready
  kServing,   // a replica has been ready: what fails from here on is repaired, not given up
  kRolling,   // serves, and restarts its replicas one after the other
  kDraining,  // accepts nothing; what is open has its time to end
  kStopping,  // the replicas are told to end
};
inline constexpr std::size_t kPhaseCount = 6;

enum class LeaderEvent : std::uint8_t {
  kLoaded,         // the weights are there
  kLoadFailed,     // and never will be
  kReplicaReady,   // a replica may take work (again)
  kReplicaDied,    // a replica is away and comes back
  kReplicaFailed,  // a replica does not come back; another one serves or may
  kAllFailed,      // … and it was the last one
  kRolled,         // the rolling restart is over, well or not
  kHangUp,         // SIGHUP
  kEnd,            // SIGTERM or SIGINT
  kEndRepeated,    // … another one within a second: the same wish, told twice
  kEndInsisted,    // … another one later: now
  kDrained,        // nothing is open any more, or the deadline has passed
  kPromptsDone,    // the prompts of the command line are answered, or cannot be
  kGone,           // no replica process is left
};
inline constexpr std::size_t kLeaderEventCount = 14;

// What is to be done, in the order of the bits.
enum LeaderAction : std::uint16_t {
  kNoAction = 0,
  kDropLoader = 1 << 0,     // its process ends
  kStartReplicas = 1 << 1,  // answers with kReplicaReady, kReplicaFailed …
  kDropRoll = 1 << 2,       // no further replica is restarted by it
  kRoll = 1 << 3,           // begins one, or queues one more; answers with kRolled
  kDrain = 1 << 4,          // answers with kDrained
  kKeepCause = 1 << 5,      // the event's error is what the server ends with
  kFailOpen = 1 << 6,       // what is open ends with that error
  kStopReplicas = 1 << 7,   // politely; answers with kGone
  kKillReplicas = 1 << 8,   // answers with kGone
  kIgnoreSignal = 1 << 9,   // the operator is told that it has no effect
  kFinish = 1 << 10,        // the leader's loop ends
};

struct PhaseStep {
  Phase next;
  std::uint16_t actions;
  friend constexpr bool operator==(const PhaseStep&, const PhaseStep&) = default;
};

using PhaseTable = std::array<std::array<PhaseStep, kLeaderEventCount>, kPhaseCount>;

// The whole life. Total: every pair has its cell.
[[nodiscard]] const PhaseTable& phase_table();

[[nodiscard]] std::string_view to_string(Phase phase);
[[nodiscard]] std::string_view to_string(LeaderEvent event);

// "drop_roll drain", in the order they are performed; "-" for none.
[[nodiscard]] std::string leader_actions_to_string(std::uint16_t actions);

// Which wish a signal tells: programs that end a process group, like timeout(1), signal their child
// twice within a millisecond, and mean it once.
class EndSignals {
 public:
  // kHangUp, kEnd, kEndRepeated or kEndInsisted.
  [[nodiscard]] LeaderEvent event_of(int signal, SteadyTime now);

 private:
  std::optional<SteadyTime> first_;
};

// Where the server is in its life. Events that come while an action is performed wait until the
// transition is complete.
// Threads: one.
class LeaderLife {
 public:
  // `cause`: the error that came with the event; null without one.
  using Perform = std::function<void(LeaderAction action, const Error* cause)>;

  explicit LeaderLife(Perform perform) : perform_(std::move(perform)) {}

  void post(LeaderEvent event, std::optional<Error> cause = std::nullopt);
  [[nodiscard]] Phase phase() const { return phase_; }

 private:
  Perform perform_;
  Phase phase_ = Phase::kLoading;
  std::deque<std::pair<LeaderEvent, std::optional<Error>>> events_;
  bool handling_ = false;
};

}  // namespace phalanx::fleet
