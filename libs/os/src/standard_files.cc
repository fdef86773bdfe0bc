// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/standard_files.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <utility>

namespace phalanx::os {

namespace {

// What a pipe that can be written to takes without blocking.
constexpr std::size_t kAtOnce = 4096;

// In one callback.
constexpr int kPiecesAtOnce = 64;

// Until a reader that is slow is asked again. Files have no event that would tell.
constexpr auto kPause = std::chrono::milliseconds(2);

Error cannot_be_written(int code) {
  return resource_exhausted(errno_error("standard output cannot be written", code).message());
}

// True: up to kAtOnce bytes can be written now, or an error is to be heard of.
bool is_writable() {
  pollfd asked{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&asked, 1, 0) > 0;
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
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size() || std::fflush(stdout) != 0) {
    return cannot_be_written(errno);
  }
  return ok();
}

void StandardOutput::write(std::string text, Written written) {
  texts_.push_back({std::move(text), std::move(written)});
  if (texts_.size() == 1) {
    again_ = loop_.call_after(Duration::zero(), [this] { write_some(); });
  }
}

void StandardOutput::write_some() {
  loop_.name_callback("standard output");
  for (int i = 0; i < kPiecesAtOnce && !texts_.empty() && is_writable(); ++i) {
    Text& text = texts_.front();
    const std::string_view rest = std::string_view(text.bytes).substr(text.done);
    const ssize_t count = ::write(STDOUT_FILENO, rest.data(), std::min(rest.size(), kAtOnce));
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
