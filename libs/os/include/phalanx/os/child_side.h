// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "phalanx/base/result.h"
#include "phalanx/os/control_socket.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

// What a child does first: dies by SIGKILL with its parent's spawning thread, and ends at once if
// the parent has changed already. `parent_pid` is the one that the bootstrap record names.
//
// Errors: kUnavailable if the parent is another process than `parent_pid`.
[[nodiscard]] Status follow_parent(int parent_pid);

// The control socket that spawn() left for this process. Errors: kFailedPrecondition if it was not
// started by spawn().
[[nodiscard]] Result<ControlSocket> inherited_control_socket();

// Name of the process in /proc/PID/comm, at most 15 bytes.
void set_process_name(const std::string& name);

// Ends the process with `exit_status` when the control socket hangs up or the lifeline pipe reports
// the end of the leader: the second line behind the parent-death signal, and the only one for
// grandchildren. Runs on a thread of its own, so that a busy main thread cannot delay it. Reads
// nothing.
//
// Ownership: borrows the control descriptor, owns the pipe's end; stop before either goes away.
class HangUpWatch {
 public:
  HangUpWatch(int control_fd, UniqueFd lifeline_pipe, int exit_status);
  HangUpWatch(const HangUpWatch&) = delete;
  HangUpWatch& operator=(const HangUpWatch&) = delete;
  ~HangUpWatch();

 private:
  void watch(int control_fd, int exit_status);

  UniqueFd pipe_;
  UniqueFd stop_read_;
  UniqueFd stop_write_;
  std::thread thread_;
};

// Sixty-four random bits from the kernel.
[[nodiscard]] std::uint64_t random_word();

// The soft limit of open files, raised to the hard one. Returns it.
std::uint64_t raise_file_limit();

// Bytes of memory that the kernel says could be had without swapping (MemAvailable), also bounded
// by the memory cgroup.
[[nodiscard]] std::uint64_t available_memory_bytes();

}  // namespace phalanx::os
