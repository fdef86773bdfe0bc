// SPDX-License-Identifier: Apache-2.0
// What is alive and what was left behind, read from /proc.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"

namespace phalanx::test {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = '?';   // as in /proc/PID/stat: 'Z' is a zombie, 'T' is stopped
  std::string title;  // the command line, words joined by blanks
};

// Processes below `root`, any number of generations, zombies left out: they are dead.
[[nodiscard]] std::vector<ProcessInfo> descendants(pid_t root);

// Zombies below `root`: dead, and not reaped by their parents.
[[nodiscard]] std::vector<ProcessInfo> zombies(pid_t root);

// Whether the process exists and is no zombie.
[[nodiscard]] bool is_alive(pid_t pid);

// Waits until none of `pids` is alive; those that still are, at the end.
[[nodiscard]] std::vector<pid_t> wait_until_dead(std::vector<pid_t> pids, Duration limit);

// Names of abstract local sockets that contain `part`, without the leading '@'.
[[nodiscard]] std::vector<std::string> abstract_sockets(const std::string& part);

// Names in /dev/shm.
[[nodiscard]] std::vector<std::string> shared_memory_files();

// Descriptors that a process of ours has open; 0 if it is gone.
[[nodiscard]] std::size_t descriptor_count(pid_t pid);

}  // namespace phalanx::test
