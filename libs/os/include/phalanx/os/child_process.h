// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/os/control_socket.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

// The descriptor number under which a child finds its control socket.
inline constexpr int kChildControlFd = 3;

struct Exited {
  int status = 0;
};
struct Signaled {
  int signal = 0;
};
using ExitReason = std::variant<Exited, Signaled>;

// "exited with status 70", "killed by SIGKILL"
[[nodiscard]] std::string to_string(const ExitReason& reason);

// A child: pid, pidfd and control socket. Everything is done through the pidfd, so a recycled pid
// is never meant.
//
// Ownership: destroying a child that still runs kills it and reaps it; that wait is bounded by what
// the kernel takes to tear a process down. Threads: spawn on the loop thread only, which lives as
// long as the process (the parent-death signal follows the spawning thread).
class ChildProcess {
 public:
  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  // Runs this same binary again with `title` as its only argument word (what ps shows). The child
  // inherits stdin, stdout, stderr and its control socket, nothing else; its signals are unblocked
  // and default.
  //
  // Errors: kResourceExhausted  process, memory or descriptor limit
  [[nodiscard]] static Result<ChildProcess> spawn(const std::string& title);

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool valid() const { return pid_ > 0; }

  // Readable when the process has ended.
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  [[nodiscard]] ControlSocket& control() { return control_; }

  // Sends a signal. Harmless for a process that has ended.
  void signal(int number);

  // How it ended, if it has; reaps it. Blocks: no.
  [[nodiscard]] std::optional<ExitReason> try_reap();

  // Whether it has been stopped by a signal since the last call. Blocks: no.
  [[nodiscard]] bool take_stopped();

 private:
  void kill_and_reap();

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  ControlSocket control_;
};

// Orphaned descendants become children of this process, so that they can be reaped.
void become_subreaper();

// Reaps every child that is not ours to watch: descendants whose parent died. `ours` says whether a
// pid belongs to a ChildProcess. Blocks: no.
void reap_orphans(const std::vector<pid_t>& ours);

}  // namespace phalanx::os
