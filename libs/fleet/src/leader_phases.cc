// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/leader_phases.h"

#include <csignal>

#include "phalanx/base/bit_names.h"
#include "phalanx/obs/log.h"

namespace phalanx::fleet {

namespace {

constexpr auto kInsistAfter = std::chrono::seconds(1);

// A cell cannot be left out: Cell has no default constructor, so a row that is too short does not
// compile.
struct Cell {
  constexpr Cell(Phase phase, int what) : step{phase, static_cast<std::uint16_t>(what)} {}
  PhaseStep step;
};
using Row = std::array<Cell, kLeaderEventCount>;

constexpr Cell stay(Phase phase, int actions = kNoAction) {
  return {phase, actions};
}
constexpr Cell go(Phase phase, int actions = kNoAction) {
  return {phase, actions};
}

constexpr int kFail = kKeepCause | kFailOpen | kStopReplicas;

// Order of the columns: that of enum LeaderEvent.
constexpr Row kLoadingRow{{
    go(Phase::kStarting, kStartReplicas),                            // kLoaded
    go(Phase::kStopping, kDropLoader | kKeepCause | kStopReplicas),  // kLoadFailed
    stay(Phase::kLoading),                                           // kReplicaReady
    stay(Phase::kLoading),                                           // kReplicaDied
    stay(Phase::kLoading),                                           // kReplicaFailed
    stay(Phase::kLoading),                                           // kAllFailed
    stay(Phase::kLoading),                                           // kRolled
    stay(Phase::kLoading, kIgnoreSignal),                            // kHangUp: nothing older runs
    go(Phase::kStopping, kDropLoader | kStopReplicas),               // kEnd
    stay(Phase::kLoading),                                           // kEndRepeated
    stay(Phase::kLoading),                                           // kEndInsisted
    stay(Phase::kLoading),                                           // kDrained
    go(Phase::kStopping, kDropLoader | kStopReplicas),               // kPromptsDone: never begun
    stay(Phase::kLoading),                                           // kGone
}};

constexpr Row kStartingRow{{
    stay(Phase::kStarting),                 // kLoaded
    stay(Phase::kStarting),                 // kLoadFailed
    go(Phase::kServing),                    // kReplicaReady
    stay(Phase::kStarting),                 // kReplicaDied
    go(Phase::kStopping, kFail),            // kReplicaFailed: a start works or fails, at once
    go(Phase::kStopping, kFail),            // kAllFailed
    stay(Phase::kStarting),                 // kRolled
    stay(Phase::kStarting, kIgnoreSignal),  // kHangUp: nothing older runs
    go(Phase::kStopping, kStopReplicas),    // kEnd
    stay(Phase::kStarting),                 // kEndRepeated
    stay(Phase::kStarting),                 // kEndInsisted
    stay(Phase::kStarting),                 // kDrained
    go(Phase::kStopping, kStopReplicas),    // kPromptsDone: never begun
    stay(Phase::kStarting),                 // kGone
}};

constexpr Row kServingRow{{
    stay(Phase::kServing),                // kLoaded
    stay(Phase::kServing),                // kLoadFailed
    stay(Phase::kServing),                // kReplicaReady
    stay(Phase::kServing),                // kReplicaDied
    stay(Phase::kServing),                // kReplicaFailed
    go(Phase::kStopping, kFail),          // kAllFailed
    stay(Phase::kServing),                // kRolled
    go(Phase::kRolling, kRoll),           // kHangUp
    go(Phase::kDraining, kDrain),         // kEnd
    stay(Phase::kServing),                // kEndRepeated
    stay(Phase::kServing),                // kEndInsisted
    stay(Phase::kServing),                // kDrained
    go(Phase::kStopping, kStopReplicas),  // kPromptsDone
    stay(Phase::kServing),                // kGone
}};

constexpr Row kRollingRow{{
    stay(Phase::kRolling),                            // kLoaded
    stay(Phase::kRolling),                            // kLoadFailed
    stay(Phase::kRolling),                            // kReplicaReady
    stay(Phase::kRolling),                            // kReplicaDied
    stay(Phase::kRolling),                            // kReplicaFailed: kRolled follows
    go(Phase::kStopping, kDropRoll | kFail),          // kAllFailed
    go(Phase::kServing),                              // kRolled
    stay(Phase::kRolling, kRoll),                     // kHangUp: one more, behind this one
    go(Phase::kDraining, kDropRoll | kDrain),         // kEnd
    stay(Phase::kRolling),                            // kEndRepeated
    stay(Phase::kRolling),                            // kEndInsisted
    stay(Phase::kRolling),                            // kDrained
    go(Phase::kStopping, kDropRoll | kStopReplicas),  // kPromptsDone
    stay(Phase::kRolling),                            // kGone
}};

constexpr Row kDrainingRow{{
    stay(Phase::kDraining),                 // kLoaded
    stay(Phase::kDraining),                 // kLoadFailed
    stay(Phase::kDraining),                 // kReplicaReady
    stay(Phase::kDraining),                 // kReplicaDied: it comes back, streams go on
    stay(Phase::kDraining),                 // kReplicaFailed
    go(Phase::kStopping, kFail),            // kAllFailed: nobody can end what is open
    stay(Phase::kDraining),                 // kRolled
    stay(Phase::kDraining, kIgnoreSignal),  // kHangUp
    stay(Phase::kDraining),                 // kEnd
    stay(Phase::kDraining, kIgnoreSignal),  // kEndRepeated
    go(Phase::kStopping, kKillReplicas),    // kEndInsisted
    go(Phase::kStopping, kStopReplicas),    // kDrained
    go(Phase::kStopping, kStopReplicas),    // kPromptsDone
    stay(Phase::kDraining),                 // kGone
}};

constexpr Row kStoppingRow{{
    stay(Phase::kStopping),                 // kLoaded
    stay(Phase::kStopping),                 // kLoadFailed
    stay(Phase::kStopping),                 // kReplicaReady
    stay(Phase::kStopping),                 // kReplicaDied
    stay(Phase::kStopping),                 // kReplicaFailed
    stay(Phase::kStopping),                 // kAllFailed
    stay(Phase::kStopping),                 // kRolled
    stay(Phase::kStopping, kIgnoreSignal),  // kHangUp
    stay(Phase::kStopping, kIgnoreSignal),  // kEnd: it ends already
    stay(Phase::kStopping, kIgnoreSignal),  // kEndRepeated
    stay(Phase::kStopping, kKillReplicas),  // kEndInsisted
    stay(Phase::kStopping),                 // kDrained
    stay(Phase::kStopping),                 // kPromptsDone
    stay(Phase::kStopping, kFinish),        // kGone
}};

// Order of the rows: that of enum Phase.
constexpr std::array<Row, kPhaseCount> kRows{
    {kLoadingRow, kStartingRow, kServingRow, kRollingRow, kDrainingRow, kStoppingRow}};
static_assert(static_cast<std::size_t>(Phase::kStopping) + 1 == kPhaseCount);
static_assert(static_cast<std::size_t>(LeaderEvent::kGone) + 1 == kLeaderEventCount);

constexpr PhaseTable build() {
  PhaseTable table{};
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
    for (std::size_t event = 0; event < kLeaderEventCount; ++event) {
      table[phase][event] = kRows[phase][event].step;
    }
  }
  return table;
}
constexpr PhaseTable kTable = build();

constexpr std::array<std::string_view, kPhaseCount> kPhaseNames{
    "loading", "starting", "serving", "rolling", "draining", "stopping"};
constexpr std::array<std::string_view, kLeaderEventCount> kEventNames{"loaded",
                                                                      "load_failed",
                                                                      "replica_ready",
                                                                      "replica_died",
                                                                      "replica_failed",
                                                                      "all_failed",
                                                                      "rolled",
                                                                      "hang_up",
                                                                      "end",
                                                                      "end_repeated",
                                                                      "end_insisted",
                                                                      "drained",
                                                                      "prompts_done",
                                                                      "gone"};
constexpr std::array<std::string_view, 11> kActionNames{"drop_loader",
                                                        "start_replicas",
                                                        "drop_roll",
                                                        "roll",
                                                        "drain",
                                                        "keep_cause",
                                                        "fail_open",
                                                        "stop_replicas",
                                                        "kill_replicas",
                                                        "ignore_signal",
                                                        "finish"};
static_assert(1U << (kActionNames.size() - 1) == kFinish);

}  // namespace

const PhaseTable& phase_table() {
  return kTable;
}

std::string_view to_string(Phase phase) {
  return kPhaseNames.at(static_cast<std::size_t>(phase));
}

std::string_view to_string(LeaderEvent event) {
  return kEventNames.at(static_cast<std::size_t>(event));
}

std::string leader_actions_to_string(std::uint16_t actions) {
  return bit_names(actions, kActionNames);
}

LeaderEvent EndSignals::event_of(int signal, SteadyTime now) {
  if (signal == SIGHUP) {
    return LeaderEvent::kHangUp;
  }
  if (!first_) {
    first_ = now;
    return LeaderEvent::kEnd;
  }
  return now - *first_ < kInsistAfter ? LeaderEvent::kEndRepeated : LeaderEvent::kEndInsisted;
}

void LeaderLife::post(LeaderEvent event, std::optional<Error> cause) {
  events_.emplace_back(event, std::move(cause));
  if (handling_) {
    return;
  }
  handling_ = true;
  while (!events_.empty()) {
    const auto [next, error] = std::move(events_.front());
    events_.pop_front();
    const PhaseStep step =
        phase_table()[static_cast<std::size_t>(phase_)][static_cast<std::size_t>(next)];
    if (step.next != phase_) {
      obs::log_debug("phase",
                     {{"from", to_string(phase_)},
                      {"event", to_string(next)},
                      {"to", to_string(step.next)},
                      {"actions", leader_actions_to_string(step.actions)}});
      phase_ = step.next;
    }
    for (std::uint32_t bit = 1; bit <= kFinish; bit <<= 1) {
      if ((step.actions & bit) != 0) {
        perform_(static_cast<LeaderAction>(bit), error ? &*error : nullptr);
      }
    }
  }
  handling_ = false;
}

}  // namespace phalanx::fleet
