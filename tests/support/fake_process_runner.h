// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "phalanx/supervise/process_runner.h"

namespace phalanx::test {

// Processes that exist only here. Asserting that a slot holds at most one is the test's business:
// `double_spawns` counts the breaches.
class FakeProcessRunner final : public supervise::ProcessRunner {
 public:
  struct Process {
    pid_t pid = 0;
    Incarnation incarnation;
    bool asked_to_stop = false;
    std::vector<int> signals;
  };

  [[nodiscard]] Result<pid_t> spawn(std::size_t slot, Incarnation incarnation) override {
    ++spawns;
    if (next_error) {
      const Error error = *std::exchange(next_error, std::nullopt);
      return error;
    }
    double_spawns += processes.count(slot) > 0 ? 1 : 0;
    processes[slot] = {++last_pid, incarnation, false, {}};
    if (on_spawn) {
      on_spawn(slot, incarnation);
    }
    return last_pid;
  }
  void ask_to_stop(std::size_t slot) override {
    if (processes.count(slot) > 0) {
      processes[slot].asked_to_stop = true;
    }
  }
  void signal(std::size_t slot, int signal) override {
    if (processes.count(slot) > 0) {
      processes[slot].signals.push_back(signal);
    }
  }

  // The process of `slot` is gone; what remains is to report it.
  Process end(std::size_t slot) {
    Process process = processes.at(slot);
    processes.erase(slot);
    return process;
  }

  // Called from inside spawn(), where a child host hears of the pid; may be empty.
  std::function<void(std::size_t slot, Incarnation incarnation)> on_spawn;
  std::map<std::size_t, Process> processes;  // alive, by slot
  std::optional<Error> next_error;           // of the next spawn()
  int spawns = 0;
  int double_spawns = 0;
  pid_t last_pid = 1000;
};

}  // namespace phalanx::test
