// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/supervise/supervisor.h"

#include "support/fake_process_runner.h"
#include "support/manual_clock.h"

namespace phalanx::supervise {

// Writes down what it hears, one line each.
class Notes final : public SupervisorListener {
 public:
  void on_slot_ready(std::size_t slot, Incarnation incarnation) override {
    note("ready", slot, incarnation);
  }
  void on_slot_down(std::size_t slot, Incarnation incarnation) override {
    note("down", slot, incarnation);
  }
  void on_slot_death(const Death& death) override {
    note("death", death.slot, death.incarnation);
    deaths.push_back(death);
  }
  void on_slot_failed(std::size_t slot, const Error& cause) override {
    lines.push_back("failed " + std::to_string(slot));
    causes.push_back(cause);
  }
  void on_slot_stopped(std::size_t slot) override {
    lines.push_back("stopped " + std::to_string(slot));
  }
  void on_slot_doomed(std::size_t slot) override {
    lines.push_back("doomed " + std::to_string(slot));
  }
  void on_slot_stuck(std::size_t slot, pid_t) override {
    lines.push_back("stuck " + std::to_string(slot));
  }

  [[nodiscard]] std::vector<std::string> take() { return std::exchange(lines, {}); }

  std::vector<std::string> lines;
  std::vector<Error> causes;
  std::vector<Death> deaths;

 private:
  void note(const std::string& what, std::size_t slot, Incarnation incarnation) {
    lines.push_back(what + " " + std::to_string(slot) + "." + std::to_string(incarnation.value()));
  }
};

// A supervisor over processes that do not exist, in a time that the test moves.
struct World {
  explicit World(std::size_t slots = 1, SupervisorOptions options = exact())
      : supervisor(slots, options, runner, notes, clock) {}

  [[nodiscard]] static SupervisorOptions exact() {
    SupervisorOptions options;
    options.restart.backoff = {std::chrono::milliseconds(100), std::chrono::seconds(10), 0.0};
    options.restart.intensity = {3, std::chrono::seconds(60)};
    options.start_timeout = std::chrono::seconds(20);
    options.stop_timeout = std::chrono::seconds(10);
    options.term_timeout = std::chrono::seconds(2);
    options.kill_timeout = std::chrono::seconds(5);
    return options;
  }

  [[nodiscard]] SlotStatus status(std::size_t slot = 0) const { return supervisor.status(slot); }
  [[nodiscard]] State state(std::size_t slot = 0) const { return status(slot).state; }
  [[nodiscard]] Incarnation incarnation(std::size_t slot = 0) const {
    return status(slot).incarnation;
  }

  void pass(Duration duration) {
    clock.advance(duration);
    supervisor.on_tick();
  }

  void ready(std::size_t slot = 0) { supervisor.on_ready(slot, incarnation(slot)); }

  void start_and_ready(std::size_t slot = 0) {
    supervisor.start(slot);
    ready(slot);
  }

  // The process of `slot` ends and is reaped.
  void die(os::ExitReason reason = os::Signaled{SIGKILL, false}, std::size_t slot = 0) {
    Death death;
    death.slot = slot;
    death.incarnation = runner.end(slot).incarnation;
    death.reason = reason;
    supervisor.on_exit(std::move(death));
  }

  test::ManualClock clock;
  test::FakeProcessRunner runner;
  Notes notes;
  Supervisor supervisor;
};

}  // namespace phalanx::supervise
