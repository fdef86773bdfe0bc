// SPDX-License-Identifier: Apache-2.0
#include "phalanx/supervise/service_machine.h"

#include <utility>

#include "phalanx/base/bit_names.h"

namespace phalanx::supervise {

namespace {

// A cell cannot be left out: Cell has no default constructor, so a row that is too short does not
// compile. `stay` marks events that mean nothing in a state.
struct Cell {
  constexpr Cell(State next, int actions) : transition{next, static_cast<std::uint16_t>(actions)} {}
  Transition transition;
};

using Row = std::array<Cell, kEventCount>;

constexpr Cell stay(State state, int actions = kNothing) {
  return {state, actions};
}
constexpr Cell go(State state, int actions = kNothing) {
  return {state, actions};
}

constexpr int kRestart = kTellDeath | kDisarm | kScheduleRestart;
constexpr int kEndForGood = kTellDeath | kDisarm | kReportFailed;
constexpr int kEndAsWanted = kTellDeath | kDisarm | kReportStopped;

// Order of the columns: that of enum Event.
constexpr Row kStoppedRow{{
    go(State::kStarting, kForgive | kSpawn),  // kStart
    stay(State::kStopped),                    // kSpawned
    stay(State::kStopped),                    // kSpawnFailed
    stay(State::kStopped),                    // kSpawnRefused
    stay(State::kStopped),                    // kProgress
    stay(State::kStopped),                    // kReady
    stay(State::kStopped),                    // kRecovering
    stay(State::kStopped),                    // kHung
    stay(State::kStopped),                    // kDied
    stay(State::kStopped),                    // kDiedForGood
    stay(State::kStopped),                    // kDeadline
    stay(State::kStopped),                    // kBackoffOver
    stay(State::kStopped),                    // kGiveUp
    stay(State::kStopped),                    // kDrain
    go(State::kStarting, kForgive | kSpawn),  // kResume
    stay(State::kStopped),                    // kStop
}};

constexpr Row kStartingRow{{
    stay(State::kStarting),                                  // kStart
    stay(State::kStarting, kArmStartDeadline),               // kSpawned
    go(State::kBackoff, kDisarm | kScheduleRestart),         // kSpawnFailed
    go(State::kFailed, kDisarm | kReportFailed),             // kSpawnRefused
    go(State::kLoading, kArmStartDeadline),                  // kProgress
    go(State::kReady, kDisarm | kNoteReady | kReportReady),  // kReady
    go(State::kRecovering, kArmStartDeadline),               // kRecovering
    stay(State::kStarting, kKill),                           // kHung
    go(State::kBackoff, kRestart),                           // kDied
    go(State::kFailed, kEndForGood),                         // kDiedForGood
    stay(State::kStarting, kKill),                           // kDeadline
    stay(State::kStarting),                                  // kBackoffOver
    stay(State::kStarting),                                  // kGiveUp
    stay(State::kStarting),                                  // kDrain
    stay(State::kStarting),                                  // kResume
    go(State::kStopping, kBeginStop),                        // kStop
}};

constexpr Row kLoadingRow{{
    stay(State::kLoading),                                   // kStart
    stay(State::kLoading, kArmStartDeadline),                // kSpawned
    stay(State::kLoading),                                   // kSpawnFailed
    stay(State::kLoading),                                   // kSpawnRefused
    stay(State::kLoading, kArmStartDeadline),                // kProgress
    go(State::kReady, kDisarm | kNoteReady | kReportReady),  // kReady
    go(State::kRecovering, kArmStartDeadline),               // kRecovering
    stay(State::kLoading, kKill),                            // kHung
    go(State::kBackoff, kRestart),                           // kDied
    go(State::kFailed, kEndForGood),                         // kDiedForGood
    stay(State::kLoading, kKill),                            // kDeadline
    stay(State::kLoading),                                   // kBackoffOver
    stay(State::kLoading),                                   // kGiveUp
    stay(State::kLoading),                                   // kDrain
    stay(State::kLoading),                                   // kResume
    go(State::kStopping, kBeginStop),                        // kStop
}};

constexpr Row kReadyRow{{
    stay(State::kReady),                                      // kStart
    stay(State::kReady),                                      // kSpawned
    stay(State::kReady),                                      // kSpawnFailed
    stay(State::kReady),                                      // kSpawnRefused
    stay(State::kReady),                                      // kProgress
    stay(State::kReady),                                      // kReady
    go(State::kRecovering, kReportDown | kArmStartDeadline),  // kRecovering
    go(State::kRecovering, kReportDown | kDisarm | kKill),    // kHung
    go(State::kBackoff, kReportDown | kRestart),              // kDied
    go(State::kFailed, kReportDown | kEndForGood),            // kDiedForGood
    stay(State::kReady),                                      // kDeadline
    stay(State::kReady),                                      // kBackoffOver
    stay(State::kReady),                                      // kGiveUp
    go(State::kDraining, kReportDown | kDisarm),              // kDrain
    stay(State::kReady),                                      // kResume
    go(State::kStopping, kReportDown | kBeginStop),           // kStop
}};

constexpr Row kRecoveringRow{{
    stay(State::kRecovering),                                // kStart
    stay(State::kRecovering),                                // kSpawned
    stay(State::kRecovering),                                // kSpawnFailed
    stay(State::kRecovering),                                // kSpawnRefused
    stay(State::kRecovering, kArmStartDeadline),             // kProgress
    go(State::kReady, kDisarm | kNoteReady | kReportReady),  // kReady
    stay(State::kRecovering),                                // kRecovering
    stay(State::kRecovering, kKill),                         // kHung
    go(State::kBackoff, kRestart),                           // kDied
    go(State::kFailed, kEndForGood),                         // kDiedForGood
    stay(State::kRecovering, kKill),                         // kDeadline
    stay(State::kRecovering),                                // kBackoffOver
    stay(State::kRecovering),                                // kGiveUp
    stay(State::kRecovering),                                // kDrain
    stay(State::kRecovering),                                // kResume
    go(State::kStopping, kBeginStop),                        // kStop
}};

// Only what was ready drains; of what is on its way the owner asks again when it is. It comes back
// after a death, as what it had goes on there.
constexpr Row kDrainingRow{{
    stay(State::kDraining),                                     // kStart
    stay(State::kDraining),                                     // kSpawned
    stay(State::kDraining),                                     // kSpawnFailed
    stay(State::kDraining),                                     // kSpawnRefused
    stay(State::kDraining),                                     // kProgress
    stay(State::kDraining),                                     // kReady
    stay(State::kDraining),                                     // kRecovering
    stay(State::kDraining, kKill),                              // kHung
    go(State::kBackoff, kRestart),                              // kDied
    go(State::kFailed, kEndForGood),                            // kDiedForGood
    stay(State::kDraining, kKill),                              // kDeadline: of a death
    stay(State::kDraining),                                     // kBackoffOver
    stay(State::kDraining),                                     // kGiveUp
    stay(State::kDraining),                                     // kDrain
    go(State::kLoading, kArmStartDeadline | kRecallReadiness),  // kResume
    go(State::kStopping, kBeginStop),                           // kStop
}};

constexpr Row kStoppingRow{{
    stay(State::kStopping),                         // kStart
    stay(State::kStopping),                         // kSpawned
    go(State::kStopped, kDisarm | kReportStopped),  // kSpawnFailed
    go(State::kStopped, kDisarm | kReportStopped),  // kSpawnRefused
    stay(State::kStopping),                         // kProgress
    stay(State::kStopping),                         // kReady
    stay(State::kStopping),                         // kRecovering
    stay(State::kStopping, kKill),                  // kHung: it hears nothing
    go(State::kStopped, kEndAsWanted),              // kDied
    go(State::kStopped, kEndAsWanted),              // kDiedForGood
    stay(State::kStopping, kEscalateStop),          // kDeadline
    stay(State::kStopping),                         // kBackoffOver
    stay(State::kStopping),                         // kGiveUp
    stay(State::kStopping),                         // kDrain
    stay(State::kStopping),                         // kResume
    stay(State::kStopping),                         // kStop
}};

constexpr Row kBackoffRow{{
    stay(State::kBackoff),                          // kStart: no restart before its time
    stay(State::kBackoff),                          // kSpawned
    stay(State::kBackoff),                          // kSpawnFailed
    stay(State::kBackoff),                          // kSpawnRefused
    stay(State::kBackoff),                          // kProgress
    stay(State::kBackoff),                          // kReady
    stay(State::kBackoff),                          // kRecovering
    stay(State::kBackoff),                          // kHung
    stay(State::kBackoff),                          // kDied
    stay(State::kBackoff),                          // kDiedForGood
    stay(State::kBackoff),                          // kDeadline
    go(State::kStarting, kDisarm | kSpawn),         // kBackoffOver
    go(State::kFailed, kDisarm | kReportFailed),    // kGiveUp
    stay(State::kBackoff),                          // kDrain
    stay(State::kBackoff),                          // kResume
    go(State::kStopped, kDisarm | kReportStopped),  // kStop
}};

constexpr Row kFailedRow{{
    go(State::kStarting, kForgive | kSpawn),  // kStart
    stay(State::kFailed),                     // kSpawned
    stay(State::kFailed),                     // kSpawnFailed
    stay(State::kFailed),                     // kSpawnRefused
    stay(State::kFailed),                     // kProgress
    stay(State::kFailed),                     // kReady
    stay(State::kFailed),                     // kRecovering
    stay(State::kFailed),                     // kHung
    stay(State::kFailed),                     // kDied
    stay(State::kFailed),                     // kDiedForGood
    stay(State::kFailed),                     // kDeadline
    stay(State::kFailed),                     // kBackoffOver
    stay(State::kFailed),                     // kGiveUp
    stay(State::kFailed),                     // kDrain
    go(State::kStarting, kForgive | kSpawn),  // kResume
    go(State::kStopped, kReportStopped),      // kStop
}};

// Order of the rows: that of enum State.
constexpr std::array<Row, kStateCount> kRows{{kStoppedRow,
                                              kStartingRow,
                                              kLoadingRow,
                                              kReadyRow,
                                              kRecoveringRow,
                                              kDrainingRow,
                                              kStoppingRow,
                                              kBackoffRow,
                                              kFailedRow}};

static_assert(static_cast<std::size_t>(State::kFailed) + 1 == kStateCount);
static_assert(static_cast<std::size_t>(Event::kStop) + 1 == kEventCount);

template <std::size_t... S, std::size_t... E>
constexpr TransitionTable build(std::index_sequence<S...> /*states*/,
                                std::index_sequence<E...> /*events*/) {
  TransitionTable table{};
  for (std::size_t state = 0; state < sizeof...(S); ++state) {
    for (std::size_t event = 0; event < sizeof...(E); ++event) {
      table[state][event] = kRows[state][event].transition;
    }
  }
  return table;
}

constexpr TransitionTable kTable =
    build(std::make_index_sequence<kStateCount>(), std::make_index_sequence<kEventCount>());

constexpr std::array<std::string_view, kStateCount> kStateNames{"stopped",
                                                                "starting",
                                                                "loading",
                                                                "ready",
                                                                "recovering",
                                                                "draining",
                                                                "stopping",
                                                                "backoff",
                                                                "failed"};
constexpr std::array<std::string_view, kEventCount> kEventNames{"start",
                                                                "spawned",
                                                                "spawn_failed",
                                                                "spawn_refused",
                                                                "progress",
                                                                "ready",
                                                                "recovering",
                                                                "hung",
                                                                "died",
                                                                "died_for_good",
                                                                "deadline",
                                                                "backoff_over",
                                                                "give_up",
                                                                "drain",
                                                                "resume",
                                                                "stop"};
constexpr std::array<std::string_view, 15> kActionNames{"report_down",
                                                        "tell_death",
                                                        "disarm",
                                                        "forgive",
                                                        "spawn",
                                                        "arm_start_deadline",
                                                        "kill",
                                                        "begin_stop",
                                                        "escalate_stop",
                                                        "schedule_restart",
                                                        "recall_readiness",
                                                        "note_ready",
                                                        "report_ready",
                                                        "report_failed",
                                                        "report_stopped"};
static_assert(1U << (kActionNames.size() - 1) == kReportStopped);

}  // namespace

const TransitionTable& transition_table() {
  return kTable;
}

bool has_process(State state) {
  switch (state) {
    case State::kStarting:
    case State::kLoading:
    case State::kReady:
    case State::kRecovering:
    case State::kDraining:
    case State::kStopping:
      return true;
    case State::kStopped:
    case State::kBackoff:
    case State::kFailed:
      return false;
  }
  return false;
}

std::string_view to_string(State state) {
  return kStateNames.at(static_cast<std::size_t>(state));
}

std::string_view to_string(Event event) {
  return kEventNames.at(static_cast<std::size_t>(event));
}

std::string actions_to_string(std::uint16_t actions) {
  return bit_names(actions, kActionNames);
}

}  // namespace phalanx::supervise
