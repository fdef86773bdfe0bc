// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/fleet/replica_slots.h"

#include "support/fake_process_runner.h"
#include "support/manual_clock.h"

namespace phalanx::fleet {

using std::chrono::milliseconds;
using std::chrono::seconds;
using supervise::State;

// The slots of replicas over processes that do not exist, in a time that the test moves.
struct World {
  explicit World(std::size_t replicas) : slots(replicas, options(), runner, events, clock) {
    const auto note = [this](const std::string& what, ReplicaId replica) {
      notes.push_back(what + " " + std::to_string(replica.value()));
    };
    events.on_ready = [note](ReplicaId replica, std::uint64_t) { note("ready", replica); };
    events.on_down = [note](ReplicaId replica) { note("down", replica); };
    events.on_lost = [note](ReplicaId replica) { note("lost", replica); };
    events.on_started = [](ReplicaId) {};
    events.on_alive = [this](ReplicaId replica, bool is) { alive[replica.value()] = is; };
    events.on_unformed = [note](ReplicaId replica) { note("unformed", replica); };
    events.on_draining = [note](ReplicaId replica, bool draining) {
      note(draining ? "draining" : "resumed", replica);
    };
    events.on_died = [this](ReplicaId, bool by_itself, const std::string&) {
      own = by_itself;
      return by_itself;
    };
    events.on_reaped = [note](ReplicaId replica) { note("died", replica); };
    events.on_failed = [this, note](ReplicaId replica, const Error& error) {
      note("failed", replica);
      cause = error.message();
    };
    events.on_rolled = [this] { ++rolled; };
    events.on_stopped = [this] { stopped = true; };
    runner.on_spawn = [this](std::size_t slot, Incarnation incarnation) {
      slots.on_spawned(slot, incarnation);
    };
  }

  [[nodiscard]] static supervise::SupervisorOptions options() {
    supervise::SupervisorOptions result;
    result.restart.backoff = {milliseconds(100), seconds(10), 0.0};
    result.restart.intensity = {2, seconds(60)};
    return result;
  }

  [[nodiscard]] supervise::SlotStatus status(std::uint32_t slot) const {
    return slots.status(ReplicaId(slot));
  }
  [[nodiscard]] std::uint32_t incarnation(std::uint32_t slot) const {
    return status(slot).incarnation.value();
  }

  void ready(std::uint32_t slot) {
    slots.on_hello(slot, status(slot).incarnation);
    slots.on_ready(slot, status(slot).incarnation, 11);
  }
  void start() {
    slots.start_all();
    for (std::uint32_t slot = 0; slot < slots.size(); ++slot) {
      ready(slot);
    }
  }
  // The process of `slot` ends, is reaped, and its ranks are gone.
  void die(std::uint32_t slot,
           os::ExitReason reason = os::Signaled{SIGKILL, false},
           DeathOrigin origin = DeathOrigin::kSent) {
    supervise::Death death;
    death.slot = slot;
    death.incarnation = runner.end(slot).incarnation;
    death.reason = reason;
    death.origin = origin;
    slots.on_lost(slot);
    slots.on_exit(slots.judge(death));
  }
  void pass(Duration duration) {
    for (Duration gone{}; gone < duration; gone += milliseconds(100)) {
      clock.advance(milliseconds(100));
      for (std::uint32_t slot = 0; slot < slots.size(); ++slot) {
        if (runner.processes.count(slot) > 0) {
          slots.on_heartbeat(slot);
        }
      }
      slots.on_tick();
    }
  }
  // Those that are asked to stop do; those that are started become ready.
  void settle() {
    for (int i = 0; i < 20; ++i) {
      for (std::uint32_t slot = 0; slot < slots.size(); ++slot) {
        const auto process = runner.processes.find(slot);
        if (process != runner.processes.end() && process->second.asked_to_stop) {
          die(slot, os::Exited{0});
        }
        if (status(slot).state == State::kStarting) {
          ready(slot);
        }
      }
      pass(milliseconds(100));
    }
  }
  [[nodiscard]] std::vector<std::string> take() { return std::exchange(notes, {}); }

  test::ManualClock clock;
  test::FakeProcessRunner runner;
  ReplicaEvents events;
  std::vector<std::string> notes;
  std::map<std::uint32_t, bool> alive;
  bool own = false;   // what the last death was told as
  std::string cause;  // of the last failure
  int rolled = 0;
  bool stopped = false;
  ReplicaSlots slots;
};

}  // namespace phalanx::fleet
