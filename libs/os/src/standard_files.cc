// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/standard_files.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <utility>

namespace phalanx::os {

namespace {

constexpr std::size_t kAtOnce = 4096;

// In one callback.
constexpr int kPiecesAtOnce = 64;

// Until a reader that is slow is asked again. Files have no event that would tell.
constexpr auto kPause = std::chrono::milliseconds(2);

Error cannot_be_written(int code) {
  return resource_exhausted(errno_error("standard output cannot be written", code).message());
}

// Standard output may be marked so that writes do not wait, by anybody who shares the opening.
void wait_until_writable() {
  pollfd asked{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  static_cast<void>(::poll(&asked, 1, -1));
}

}  // namespace

void prepare_program() {
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
      // The lowest number that is free: this one. What is asked for is not to be lost without a word,
      // so output that was closed takes nothing; a log may be lost.
      static_cast<void>(::open("/dev/null", fd == STDERR_FILENO ? O_RDWR : O_RDONLY));
    }
  }
}

Status print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      wait_until_writable();
    } else if (errno != EINTR) {
      return cannot_be_written(errno);
    }
  }
  return ok();
}

StandardOutput::StandardOutput(EventLoop& loop) : loop_(loop), output_(STDOUT_FILENO) {}

void StandardOutput::write(std::string text, Written written) {
  texts_.push_back({std::move(text), std::move(written)});
  if (texts_.size() == 1) {
    again_ = loop_.call_after(Duration::zero(), [this] { write_some(); });
  }
}

void StandardOutput::write_some() {
  loop_.name_callback("standard output");
  output_.look_again();
  for (int i = 0; i < kPiecesAtOnce && !texts_.empty(); ++i) {
    Text& text = texts_.front();
    const std::string_view rest = std::string_view(text.bytes).substr(text.done);
    const ssize_t count = output_.write_some(rest.substr(0, kAtOnce));
    if (count >= 0) {
      text.done += static_cast<std::size_t>(count);
      if (text.done == text.bytes.size()) {
        end_first(ok());
      }
    } else if (errno == EAGAIN || errno == EINTR) {
      break;
    } else {
      end_first(cannot_be_written(errno));
    }
  }
  if (!texts_.empty()) {
    again_ = loop_.call_after(kPause, [this] { write_some(); });
  }
}

void StandardOutput::end_first(Status status) {
  const Text text = std::move(texts_.front());
  texts_.pop_front();
  if (text.written) {
    text.written(std::move(status));
  }
}

}  // namespace phalanx::os
