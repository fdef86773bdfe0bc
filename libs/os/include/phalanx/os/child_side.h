// SPDX-License-Identifier: Apache-2.0
// What a child does about its parent, and a parent about children that it did not spawn.
#pragma once

#include <sys/types.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/os/control_socket.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

// Exit status of a child whose parent or leader has gone.
inline constexpr int kParentGoneStatus = 69;

// SIGHUP, SIGINT and SIGTERM have no effect from here on, nor do those that waited (see SpawnPlan).
// Before there is another thread.
void ignore_group_signals();

// First thing in a child: dies by SIGKILL with the thread that spawned it, ignores SIGPIPE, names
// its main thread.
// Errors: those of the kernel.
[[nodiscard]] Status enter_child(const std::string& thread_name);

// Behind enter_child(), with the pid from the bootstrap record: the parent may have died before the
// parent-death signal was asked for. 0: a wrapper stands between them; the control socket tells of
// the parent's end.
// Errors: kUnavailable if the parent is another process.
[[nodiscard]] Status check_parent(pid_t expected);

// Whether a parent of ours has started this process: kChildControlFd is a control socket.
[[nodiscard]] bool has_control_socket();

// The control socket that the parent left at kChildControlFd.
// Errors: kInvalidArgument if this process was not started by a parent of ours.
[[nodiscard]] Result<ControlSocket> inherited_control_socket();

// Ends the process with kParentGoneStatus when one of `fds` hangs up: control socket and the
// leader's lifeline pipe. Runs on a thread of its own, so that a busy main thread cannot delay it,
// and reads nothing.
//
// Ownership: the descriptors stay the caller's and must outlive the watch.
class HangupWatch {
 public:
  [[nodiscard]] static Result<HangupWatch> start(std::vector<int> fds);
  HangupWatch(HangupWatch&&) noexcept = default;
  HangupWatch& operator=(HangupWatch&&) = delete;
  HangupWatch(const HangupWatch&) = delete;
  HangupWatch& operator=(const HangupWatch&) = delete;
  ~HangupWatch();

 private:
  HangupWatch(UniqueFd stop, std::thread thread)
      : stop_(std::move(stop)), thread_(std::move(thread)) {}

  UniqueFd stop_;
  std::thread thread_;
};

// Orphaned descendants become children of this process, so that they can be reaped.
[[nodiscard]] Status become_subreaper();

// Reaps ended children that no ChildProcess of this process spawned: descendants whose parent died.
// Returns how many. To be called on SIGCHLD (PosixProcessRunner does).
// Blocks: no.
// Threads: any.
int reap_adopted();

// Adopted children that have not ended. Those that have are reaped.
// Blocks: no.
// Threads: any.
[[nodiscard]] std::vector<pid_t> living_adopted();

void ignore_sigpipe();

}  // namespace phalanx::os
