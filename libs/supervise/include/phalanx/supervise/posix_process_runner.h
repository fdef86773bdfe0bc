// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/os/child_process.h"
#include "phalanx/os/control_socket.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/lifeline.h"
#include "phalanx/supervise/death.h"
#include "phalanx/supervise/process_runner.h"

namespace phalanx::supervise {

// The first record that a child gets.
struct Bootstrap {
  std::string record;
  std::vector<int> fds;  // sent beside it after the lifeline page; they stay the caller's
};

// What a kind of children needs and who hears of them. Called on the loop thread except on_dying().
class ChildHost {
 public:
  ChildHost() = default;
  ChildHost(const ChildHost&) = delete;
  ChildHost& operator=(const ChildHost&) = delete;
  virtual ~ChildHost() = default;

  [[nodiscard]] virtual os::SpawnPlan plan(std::size_t slot, Incarnation incarnation) = 0;

  // Called between creation and first word of the child: its pid is known, so an endpoint can be
  // restricted to it. Descriptor [0] of the record is the lifeline page, `fds` come after it.
  [[nodiscard]] virtual Result<Bootstrap> bootstrap(std::size_t slot,
                                                    Incarnation incarnation,
                                                    pid_t pid) = 0;

  virtual void ask_to_stop(std::size_t slot) = 0;

  // An error: a record came and is lost, too large or with descriptors that found no place. It is
  // as one that cannot be decoded: nobody knows what it said.
  virtual void on_record(std::size_t slot,
                         Incarnation incarnation,
                         Result<os::ControlMessage> received) = 0;

  // The child's main thread died. On a thread of its own, within about 0.1 ms and long before
  // on_exit(): raise the abort word, post to the loop, do not block.
  virtual void on_dying(std::size_t slot, Incarnation incarnation) = 0;

  // A signal stopped it (SIGSTOP).
  virtual void on_stopped_by_signal(std::size_t slot, Incarnation incarnation) = 0;

  // Reaped: its memory is released, the slot is free. May spawn into it.
  virtual void on_exit(const Death& death) = 0;
};

// Children of this process by os::ChildProcess: spawns them, gives each a lifeline page and its
// bootstrap record, and watches pidfd, control socket, lifeline and SIGCHLD. Orphans that this
// process has adopted (os::become_subreaper()) are reaped on the way. Whose doing a death was is
// told from the crash record in the lifeline page, and for SIGKILL from the memory cgroup's count.
//
// Ownership: destroying the runner kills what lives and waits for it, at most one second each;
// stop before. Borrows loop and host.
// Threads: the loop thread, which lives as long as the process.
class PosixProcessRunner final : public ProcessRunner {
 public:
  PosixProcessRunner(std::size_t slots, os::EventLoop& loop, ChildHost& host);
  PosixProcessRunner(const PosixProcessRunner&) = delete;
  PosixProcessRunner& operator=(const PosixProcessRunner&) = delete;
  ~PosixProcessRunner() override;

  [[nodiscard]] Result<pid_t> spawn(std::size_t slot, Incarnation incarnation) override;
  void ask_to_stop(std::size_t slot) override;
  void signal(std::size_t slot, int signal) override;

  // A later record for the child of `slot`. kClosed if there is none.
  [[nodiscard]] Result<os::ControlSent> send(std::size_t slot,
                                             const std::string& record,
                                             std::span<const int> fds);

  // Null without a living child. Valid until on_exit().
  [[nodiscard]] const os::Lifeline* lifeline(std::size_t slot) const;
  [[nodiscard]] std::vector<pid_t> pids() const;  // of living children

 private:
  struct Child;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phalanx::supervise
