// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "phalanx/base/crash_signals.h"
#include "phalanx/base/scope_exit.h"
#include "phalanx/os/child_side.h"

#include "group_signals.h"
#include "own_children.h"
#include "proc_files.h"

namespace phalanx::os {

namespace {

constexpr Duration kReapLimit = std::chrono::seconds(1);

// glibc 2.36 declares P_PIDFD, but its <sys/pidfd.h> lacks extern "C".
int pidfd_open(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

ExitReason reason_of(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) {
    return Exited{info.si_status};
  }
  return Signaled{info.si_status, info.si_code == CLD_DUMPED};
}

std::string_view variable_name(std::string_view setting) {
  return setting.substr(0, setting.find('='));
}

// What decides how the program is loaded, and how malloc and the sanitizers work in it, is the same
// in parent and child, and so is whether the standard error that they share is a journal. Nothing
// else is passed on: settings come over the control socket, and what a
// service manager or a shell keeps in the environment is not for those who compute.
bool is_passed_on(std::string_view name) {
  static constexpr std::string_view kNames[] = {"LD_LIBRARY_PATH",
                                                "LD_PRELOAD",
                                                "GLIBC_TUNABLES",
                                                "JOURNAL_STREAM",
                                                "ASAN_OPTIONS",
                                                "LSAN_OPTIONS",
                                                "TSAN_OPTIONS",
                                                "UBSAN_OPTIONS"};
  return name.starts_with("MALLOC_") ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::vector<std::string> child_environment(const std::vector<std::string>& own) {
  std::vector<std::string> result = own;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view name = variable_name(*entry);
    const bool replaced = std::any_of(own.begin(), own.end(), [&](const std::string& setting) {
      return variable_name(setting) == name;
    });
    if (is_passed_on(name) && !replaced) {
      result.emplace_back(*entry);
    }
  }
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

Status check_plan(const SpawnPlan& plan) {
  const auto has_zero = [](const std::string& text) {
    return text.find('\0') != std::string::npos;
  };
  if (plan.arguments.empty() ||
      std::any_of(plan.arguments.begin(), plan.arguments.end(), has_zero) ||
      std::any_of(plan.environment.begin(), plan.environment.end(), has_zero)) {
    return invalid_argument("a child needs an argv[0], and no argument may hold a zero byte");
  }
  return ok();
}

// posix_spawn and not fork: threads and library state of this process are never copied.
Result<pid_t> spawn_with_control(const SpawnPlan& plan, int control_fd) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const ScopeExit free_files([&] { posix_spawn_file_actions_destroy(&files); });
  posix_spawn_file_actions_adddup2(&files, control_fd, kChildControlFd);
  posix_spawn_file_actions_addclosefrom_np(&files, kChildControlFd + 1);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const ScopeExit free_attributes([&] { posix_spawnattr_destroy(&attributes); });
  sigset_t all;
  sigfillset(&all);
  const sigset_t held = plan.holds_group_signals ? group_signals() : sigset_t{};
  posix_spawnattr_setsigmask(&attributes, &held);
  posix_spawnattr_setsigdefault(&attributes, &all);
  short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
  if (plan.leads_group) {
    posix_spawnattr_setpgroup(&attributes, 0);
    flags |= POSIX_SPAWN_SETPGROUP;
  }
  posix_spawnattr_setflags(&attributes, flags);

  std::vector<std::string> arguments = plan.arguments;
  std::vector<std::string> environment = child_environment(plan.environment);
  pid_t pid = -1;
  const int code = ::posix_spawn(&pid,
                                 plan.program.c_str(),
                                 &files,
                                 &attributes,
                                 pointers_to(arguments).data(),
                                 pointers_to(environment).data());
  if (code != 0) {
    // What a held program is called is in its arguments, not in the path of its descriptor.
    const bool is_held = plan.program.starts_with("/proc/") && !plan.arguments.empty();
    return errno_error("starting " + (is_held ? plan.arguments.front() : plan.program) +
                           (code == EAGAIN ? " (see ulimit -u)" : ""),
                       code);
  }
  return pid;
}

}  // namespace

OwnChildren& own_children() {
  // Never destroyed: a ChildProcess may live as long as the process.
  static OwnChildren& children = *new OwnChildren;
  return children;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(signal);
}

std::string to_string(const ExitReason& reason) {
  if (const auto* exited = std::get_if<Exited>(&reason)) {
    return "exited with status " + std::to_string(exited->status);
  }
  const auto& signaled = std::get<Signaled>(reason);
  return "killed by signal " + std::to_string(signaled.signal) + " (" +
         signal_name(signaled.signal) + (signaled.core_dumped ? ", core dumped)" : ")");
}

bool is_crash(const ExitReason& reason) {
  const auto* signaled = std::get_if<Signaled>(&reason);
  return signaled != nullptr && is_crash_signal(signaled->signal);
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    kill_and_reap();
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    control_ = std::move(other.control_);
    leads_group_ = other.leads_group_;
    left_ = std::exchange(other.left_, std::nullopt);
    exit_ = std::exchange(other.exit_, std::nullopt);
  }
  return *this;
}

ChildProcess::~ChildProcess() {
  kill_and_reap();
}

bool is_program(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

Result<HeldProgram> HeldProgram::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  const int error = fd.valid() ? 0 : errno;
  if (error == EMFILE || error == ENFILE || error == ENOMEM) {
    return errno_error("opening " + path, error);
  }
  if (!fd.valid() || !is_program(path)) {
    return not_found(path + ": expected a program, found none that may be run");
  }
  return HeldProgram(std::move(fd), path);
}

Result<HeldProgram> HeldProgram::beside(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return errno_error("reading /proc/self/exe", error.value());
  }
  const std::string path = (self.parent_path() / name).string();
  if (!is_program(path)) {
    return not_found(path + ": expected the program " + name + " beside " +
                     self.filename().string() + ", found none that may be run");
  }
  return open(path);
}

// Not /proc/self: a child closes what it was not given before it becomes the program.
std::string HeldProgram::spawn_path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_.get());
}

Result<ChildProcess> ChildProcess::spawn(const SpawnPlan& plan) {
  PHALANX_RETURN_IF_ERROR(check_plan(plan));
  PHALANX_TRY(auto ends, ControlSocket::make_pair());
  const std::unique_lock lock(own_children().mutex);
  PHALANX_TRY(const pid_t pid, spawn_with_control(plan, ends.second.fd()));
  // Nobody else reaps children of this process, so the pid still means this child.
  UniqueFd pidfd(pidfd_open(pid));
  if (!pidfd.valid()) {
    const int code = errno;
    ::kill(pid, SIGKILL);
    // Its end is not waited for here, where everybody who spawns or reaps would wait as well: it is
    // nobody's child, and reap_adopted() takes it.
    return errno_error("opening a pidfd", code);
  }
  own_children().pids.insert(pid);
  return ChildProcess(pid, std::move(pidfd), std::move(ends.first), plan.leads_group);
}

// A number stays taken as long as it names a process or a group, so it means this group to its end.
std::optional<ExitReason> ChildProcess::poll_exit() {
  if (exit_ || !pidfd_.valid()) {
    return exit_;
  }
  if (!left_) {
    left_ = reap();
  }
  if (left_ && leads_group_) {
    static_cast<void>(reap_adopted());  // until it is reaped a member of the group counts
  }
  if (left_ && (!leads_group_ || ::kill(-pid_, 0) != 0)) {
    exit_ = left_;
  }
  return exit_;
}

std::optional<ExitReason> ChildProcess::reap() {
  siginfo_t info{};
  int code = 0;
  const auto wait = [&](int options) {
    do {
      code = ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, options | WNOHANG);
    } while (code != 0 && errno == EINTR);
  };
  // Until it is reaped its pid is not given to another child: the list changes in the same moment.
  const std::lock_guard lock(own_children().mutex);
  if (leads_group_) {
    wait(WEXITED | WNOWAIT);
    if (code == 0 && info.si_pid == 0) {
      return std::nullopt;
    }
    ::kill(-pid_, SIGKILL);
  }
  wait(WEXITED);
  if (code == 0 && info.si_pid == 0) {
    return std::nullopt;
  }
  own_children().pids.erase(pid_);
  // When somebody else reaped it, it is gone, and how it ended is not known any more.
  return code == 0 ? reason_of(info) : Exited{error_traits(Code::kInternal).exit_status};
}

std::optional<ExitReason> ChildProcess::wait_exit(SteadyTime deadline) {
  while (!poll_exit() && pidfd_.valid()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock().now());
    if (left.count() <= 0) {
      break;
    }
    pollfd entry{leaves_group() ? -1 : pidfd_.get(), POLLIN, 0};
    const auto limit =
        std::min<std::chrono::milliseconds::rep>(left.count(), leaves_group() ? 1 : 60'000);
    ::poll(&entry, 1, static_cast<int>(limit));
  }
  return exit_;
}

bool ChildProcess::take_stopped() {
  if (exit_ || !pidfd_.valid()) {
    return false;
  }
  siginfo_t info{};
  return ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WSTOPPED | WNOHANG) == 0 &&
         info.si_pid != 0;
}

bool ChildProcess::is_stopped() const {
  const std::string stat = read_small_file("/proc/" + std::to_string(pid_) + "/stat").value_or("");
  const std::size_t name_end = stat.rfind(") ");  // the name may hold anything
  return name_end != std::string::npos && stat.size() > name_end + 2 && stat[name_end + 2] == 'T';
}

Status ChildProcess::signal(int signal) const {
  if (exit_ || !pidfd_.valid()) {
    return ok();
  }
  const int code =
      leads_group_
          ? ::kill(-pid_, signal)
          : static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0));
  if (code != 0 && errno != ESRCH) {
    return errno_error("signalling process " + std::to_string(pid_), errno);
  }
  return ok();
}

void ChildProcess::kill_and_reap() noexcept {
  if (!pidfd_.valid() || poll_exit()) {
    return;
  }
  static_cast<void>(signal(SIGKILL));
  static_cast<void>(wait_exit(steady_clock().now() + kReapLimit));
  if (!left_) {
    // Whenever it ends, reap_adopted() takes it.
    const std::lock_guard lock(own_children().mutex);
    own_children().pids.erase(pid_);
  }
}

}  // namespace phalanx::os
