// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/child_side.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <mutex>
#include <sstream>

#include "phalanx/os/child_process.h"

#include "group_signals.h"
#include "own_children.h"
#include "proc_files.h"

namespace phalanx::os {

namespace {

// Blocks until one of `fds` hangs up (true) or `stop` does (false). Only hang-ups are asked for:
// readable data must not wake this thread, or it would spin while the main thread computes.
bool wait_for_hangup(const std::vector<int>& fds, int stop) {
  std::vector<pollfd> entries;
  entries.reserve(fds.size() + 1);
  for (const int fd : fds) {
    entries.push_back({fd, POLLRDHUP, 0});
  }
  entries.push_back({stop, 0, 0});
  for (;;) {
    if (::poll(entries.data(), entries.size(), -1) < 0) {
      if (errno == EINTR) {
        continue;
      }
      return true;
    }
    if (entries.back().revents != 0) {
      return false;
    }
    if (std::any_of(entries.begin(), entries.end(), [](const pollfd& entry) {
          return (entry.revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL)) != 0;
        })) {
      return true;
    }
  }
}

// Direct children of this process, whichever thread is their parent; zombies included.
std::vector<pid_t> child_pids() {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir("/proc/self/task"), ::closedir);
  if (tasks == nullptr) {
    return pids;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this call's own
  while (const dirent* entry = ::readdir(tasks.get())) {
    if (entry->d_name[0] == '.') {
      continue;
    }
    const auto text =
        read_small_file("/proc/self/task/" + std::string(entry->d_name) + "/children");
    std::istringstream numbers(text.value_or(""));
    for (pid_t pid = 0; numbers >> pid;) {
      pids.push_back(pid);
    }
  }
  return pids;
}

}  // namespace

void ignore_group_signals() {
  for (const int signal : kGroupSignals) {
    std::signal(signal, SIG_IGN);  // discards what waits
  }
  const sigset_t signals = group_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

Status enter_child(const std::string& thread_name) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
    return errno_error("asking for the parent-death signal", errno);
  }
  ignore_sigpipe();
  ::pthread_setname_np(::pthread_self(), thread_name.substr(0, 15).c_str());
  return ok();
}

Status check_parent(pid_t expected) {
  const pid_t parent = ::getppid();
  if (expected != 0 && parent != expected) {
    return unavailable("the parent process " + std::to_string(expected) +
                       " is gone; this process now belongs to " + std::to_string(parent));
  }
  return ok();
}

bool has_control_socket() {
  return ControlSocket::is_one(kChildControlFd);
}

Result<ControlSocket> inherited_control_socket() {
  return ControlSocket::adopt(UniqueFd(kChildControlFd));
}

Result<HangupWatch> HangupWatch::start(std::vector<int> fds) {
  PHALANX_TRY(Pipe stop, make_pipe());
  std::thread thread([fds = std::move(fds), read = std::move(stop.read)]() noexcept {
    ::pthread_setname_np(::pthread_self(), "hangup-watch");
    if (wait_for_hangup(fds, read.get())) {
      ::_exit(kParentGoneStatus);
    }
  });
  return HangupWatch(std::move(stop.write), std::move(thread));
}

HangupWatch::~HangupWatch() {
  stop_.reset();
  if (thread_.joinable()) {
    thread_.join();
  }
}

Status become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    return errno_error("becoming a child subreaper", errno);
  }
  return ok();
}

int reap_adopted() {
  int reaped = 0;
  const std::lock_guard lock(own_children().mutex);
  for (const pid_t pid : child_pids()) {
    if (own_children().pids.count(pid) > 0) {
      continue;
    }
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG) == 0 &&
        info.si_pid == pid) {
      ++reaped;
    }
  }
  return reaped;
}

std::vector<pid_t> living_adopted() {
  static_cast<void>(reap_adopted());
  std::vector<pid_t> living;
  const std::lock_guard lock(own_children().mutex);
  for (const pid_t pid : child_pids()) {
    if (own_children().pids.count(pid) == 0) {
      living.push_back(pid);
    }
  }
  return living;
}

void ignore_sigpipe() {
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
}

}  // namespace phalanx::os
