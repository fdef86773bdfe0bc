// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
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
  friend bool operator==(const Exited&, const Exited&) = default;
};
struct Signaled {
  int signal = 0;
  bool core_dumped = false;
  friend bool operator==(const Signaled&, const Signaled&) = default;
};
using ExitReason = std::variant<Exited, Signaled>;

// "SIGKILL"
[[nodiscard]] std::string signal_name(int signal);
// "exited with status 70", "killed by signal 9 (SIGKILL)"
[[nodiscard]] std::string to_string(const ExitReason& reason);
// By one of kCrashSignals: it may have written anywhere before it ended.
[[nodiscard]] bool is_crash(const ExitReason& reason);

// What to run. The child inherits standard input, output and error and its control socket, nothing
// else; its signals are default, and unblocked but for those of `holds_group_signals`.
struct SpawnPlan {
  std::string program = "/proc/self/exe";  // the same binary: parent and child never differ
  std::vector<std::string> arguments;      // argv
  // "NAME=value". Besides these a child has only the LD_LIBRARY_PATH, LD_PRELOAD, GLIBC_TUNABLES,
  // MALLOC_…, JOURNAL_STREAM and sanitizer options of this process.
  std::vector<std::string> environment;
  // The program may have children of its own: it leads a process group, every signal is for the
  // whole group, and it has ended when nobody of the group is left.
  bool leads_group = false;
  // For whoever judges the child; a spawn does not read it: the program is a command that runs what
  // is meant, a process of another pid and parent, which may be slow.
  bool wrapped = false;
  // SIGHUP, SIGINT and SIGTERM wait until the program has said that it ignores them
  // (ignore_group_signals()): what is for the whole process group ends none that has just begun.
  bool holds_group_signals = false;
};

// Whether a file is there that this user may run, and no folder.
[[nodiscard]] bool is_program(const std::string& path);

// A program that stays what it is when its file is replaced or removed. What it names is good for
// SpawnPlan::program as long as it lives, and in this process's children only.
class HeldProgram {
 public:
  HeldProgram() = default;

  // Errors: kNotFound no such file, or none that may be run.
  [[nodiscard]] static Result<HeldProgram> open(const std::string& path);
  // The program `name` in the folder of the program that runs.
  // Errors: as open(); those of reading /proc/self/exe.
  [[nodiscard]] static Result<HeldProgram> beside(const std::string& name);

  [[nodiscard]] std::string spawn_path() const;
  [[nodiscard]] const std::string& path() const { return path_; }  // as it was opened

 private:
  HeldProgram(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
};

// A child: pid, pidfd and control socket. Everything is done through the pidfd, so a recycled pid
// is never meant.
//
// Ownership: destroying a child that still runs kills it and waits for it at most one second.
// Threads: spawn on the loop thread only, which lives as long as the process (the parent-death
// signal follows the spawning thread); one at a time.
class ChildProcess {
 public:
  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept { *this = std::move(other); }
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  // Returns as soon as the kernel has created the child.
  //
  // Errors: kInvalidArgument    no argv[0], or a zero byte in an argument
  //         kNotFound           no such executable
  //         kResourceExhausted  process, memory or descriptor limit
  [[nodiscard]] static Result<ChildProcess> spawn(const SpawnPlan& plan);

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool valid() const { return pidfd_.valid(); }
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }  // readable when the process has ended
  [[nodiscard]] ControlSocket& control() { return control_; }

  // How it ended, once it has; reaps it. When it led a group, what is left of the group is killed
  // first, and the answer comes when that is gone and reaped by who adopted it (this process does).
  // Blocks: no.
  [[nodiscard]] std::optional<ExitReason> poll_exit();
  // It has ended, others of its group have not: poll_exit() must be asked again, as pidfd() tells
  // nothing of them.
  [[nodiscard]] bool leaves_group() const { return left_ && !exit_; }
  // The same, waiting until `deadline`.
  [[nodiscard]] std::optional<ExitReason> wait_exit(SteadyTime deadline);

  // Whether a signal has stopped it since the last call.
  // Blocks: no.
  [[nodiscard]] bool take_stopped();

  // Whether it stands still by a stop signal now, noticed or not. Reads a small file.
  [[nodiscard]] bool is_stopped() const;

  // A process that has ended is no error.
  [[nodiscard]] Status signal(int signal) const;

 private:
  ChildProcess(pid_t pid, UniqueFd pidfd, ControlSocket control, bool leads_group)
      : pid_(pid),
        pidfd_(std::move(pidfd)),
        control_(std::move(control)),
        leads_group_(leads_group) {}
  [[nodiscard]] std::optional<ExitReason> reap();
  void kill_and_reap() noexcept;

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  ControlSocket control_;
  bool leads_group_ = false;
  std::optional<ExitReason> left_;  // of the leader of a group
  std::optional<ExitReason> exit_;
};

}  // namespace phalanx::os
