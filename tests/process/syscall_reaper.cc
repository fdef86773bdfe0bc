// SPDX-License-Identifier: Apache-2.0
// Follows a process and ends it at a chosen system call.
//
// usage: syscall-reaper PID N
// Says "ready" when every thread of the process is followed. From then on each begin and each end
// of a system call counts, of all threads; at the N-th the process is killed, and so dies before or
// behind what the call does. With N = 0 nothing is killed, until the end of standard input. Says at
// last how many it has counted. 77: the kernel lets nobody follow that process.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

namespace {

constexpr int kNotAllowed = 77;
constexpr int kSystemCall = SIGTRAP | 0x80;

class Follower {
 public:
  explicit Follower(pid_t process) : process_(process) {}

  // Every thread, those included that come meanwhile. False: it is not allowed, or there is none.
  bool follow_all() {
    const std::string folder = "/proc/" + std::to_string(process_) + "/task";
    for (std::size_t before = 1; before != 0;) {
      before = 0;
      std::error_code error;
      for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        const pid_t thread = std::stoi(entry.path().filename().string());
        if (!followed_.contains(thread)) {
          if (!follow(thread)) {
            return false;
          }
          ++before;
        }
      }
    }
    return !followed_.empty();
  }

  // Until the process has ended, or `last_words` says that it is enough.
  long run(long kill_at, int last_words) {
    while (true) {
      int status = 0;
      const pid_t thread = ::waitpid(-1, &status, __WALL | (kill_at == 0 ? WNOHANG : 0));
      if (thread < 0 && errno != EINTR) {
        return count_;
      }
      if (thread == 0) {
        char byte = 0;
        if (::read(last_words, &byte, 1) == 0) {
          return count_;
        }
        ::usleep(50);
        continue;
      }
      if (thread > 0 && WIFSTOPPED(status)) {
        on_stop(thread, status, kill_at);
      }
    }
  }

 private:
  bool follow(pid_t thread) {
    if (::ptrace(PTRACE_SEIZE, thread, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE) != 0) {
      return errno == ESRCH;  // it has ended meanwhile
    }
    followed_.insert(thread);
    int status = 0;
    ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
    ::waitpid(thread, &status, __WALL);
    ::ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr);
    return true;
  }

  void on_stop(pid_t thread, int status, long kill_at) {
    const int signal = WSTOPSIG(status);
    const bool is_event = status >> 16 != 0;
    if (signal == kSystemCall && ++count_ == kill_at) {
      ::kill(process_, SIGKILL);
    }
    const bool is_own = signal == kSystemCall || is_event;
    ::ptrace(PTRACE_SYSCALL, thread, nullptr, is_own ? 0 : signal);
  }

  pid_t process_;
  std::set<pid_t> followed_;
  long count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: syscall-reaper PID N\n", stderr);
    return 2;
  }
  const long kill_at = std::atol(argv[2]);
  Follower follower(std::atoi(argv[1]));
  if (!follower.follow_all()) {
    std::perror("syscall-reaper");
    return errno == EPERM ? kNotAllowed : 1;
  }
  std::puts("ready");
  std::fflush(stdout);
  ::fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
  std::printf("%ld\n", follower.run(kill_at, STDIN_FILENO));
  return 0;
}
