// SPDX-License-Identifier: Apache-2.0
// The life of one supervised process slot as a pure table. Nothing here has a clock or a process;
// `Supervisor` feeds events and performs actions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace phalanx::supervise {

enum class State : std::uint8_t {
  kStopped,     // no process, none wanted
  kStarting,    // spawned, not heard of yet
  kLoading,     // heard of, not ready yet
  kReady,       // serves
  kRecovering,  // lives and repairs itself; serves later
  kDraining,    // lives and finishes what it has; gets nothing new
  kStopping,    // told to end; message, SIGTERM, SIGKILL follow each other
  kBackoff,     // dead; a restart is scheduled
  kFailed,      // dead; only an operator starts it again
};
inline constexpr std::size_t kStateCount = 9;

enum class Event : std::uint8_t {
  kStart,         // a process is wanted; also the operator's way out of kFailed
  kSpawned,       // the kernel has created it
  kSpawnFailed,   // not created; tried again
  kSpawnRefused,  // not created in a first start: final
  kProgress,      // the child is heard of, or its start advances
  kReady,         // the child can serve
  kRecovering,    // the child cannot serve for now
  kHung,          // the child lives and does not turn
  kDied,          // reaped; started again
  kDiedForGood,   // reaped in a first start: final
  kDeadline,      // the deadline that was armed last has passed
  kBackoffOver,   // the delay before the restart is over
  kGiveUp,        // too many restarts
  kDrain,         // the operator, or a shutdown
  kResume,        // the operator: serve again
  kStop,          // end the process
};
inline constexpr std::size_t kEventCount = 16;

// What is to be done, in the order of the bits.
enum Action : std::uint16_t {
  kNothing = 0,
  kReportDown = 1 << 0,        // no new work for this slot
  kTellDeath = 1 << 1,         // the listener hears of it
  kDisarm = 1 << 2,            // no deadline is pending
  kForgive = 1 << 3,           // the restart policy starts from nothing
  kSpawn = 1 << 4,             // answers with kSpawned, kSpawnFailed or kSpawnRefused
  kArmStartDeadline = 1 << 5,  // from now
  kKill = 1 << 6,              // SIGKILL; the death is still to come
  kBeginStop = 1 << 7,         // the polite message, and a deadline
  kEscalateStop = 1 << 8,      // the next harder way, and a deadline
  kScheduleRestart = 1 << 9,   // answers with kBackoffOver later, or kGiveUp now
  kRecallReadiness = 1 << 10,  // answers with kReady if the child said so before
  kNoteReady = 1 << 11,        // the restart policy learns of success
  kReportReady = 1 << 12,      // work may come
  kReportFailed = 1 << 13,     // for good
  kReportStopped = 1 << 14,    // as wanted
};

struct Transition {
  State next;
  std::uint16_t actions;
  friend constexpr bool operator==(const Transition&, const Transition&) = default;
};

using TransitionTable = std::array<std::array<Transition, kEventCount>, kStateCount>;

// The whole machine. Total: every pair has its cell.
[[nodiscard]] const TransitionTable& transition_table();

[[nodiscard]] inline Transition step(State state, Event event) {
  return transition_table()[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

// Whether a slot in this state has a process (kStarting: or is about to).
[[nodiscard]] bool has_process(State state);

[[nodiscard]] std::string_view to_string(State state);
[[nodiscard]] std::string_view to_string(Event event);

// "spawn arm_start_deadline", in the order they are performed; "-" for none.
[[nodiscard]] std::string actions_to_string(std::uint16_t actions);

}  // namespace phalanx::supervise
