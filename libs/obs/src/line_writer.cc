// SPDX-License-Identifier: Apache-2.0
#include "line_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace phalanx::obs {

namespace {

// systemd sets the variable to "DEVICE:INODE" of the stream that it starts a service with; whoever
// was given another one since has inherited the variable all the same.
bool is_journal(const struct stat& file) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  const char* const stream = std::getenv("JOURNAL_STREAM");
  return stream != nullptr &&
         stream == std::to_string(file.st_dev) + ":" + std::to_string(file.st_ino);
}

}  // namespace

LineWriter::~LineWriter() {
  if (own_fd_ >= 0) {
    ::close(own_fd_);
  }
}

// Finds out how to write to what is behind the descriptor now.
void LineWriter::look_again() {
  struct stat file {};
  if (::fstat(fd_, &file) != 0) {
    return;
  }
  if (known_ && file.st_dev == device_ && file.st_ino == inode_) {
    return;
  }
  known_ = true;
  device_ = file.st_dev;
  inode_ = file.st_ino;
  is_journal_ = is_journal(file);
  rest_.clear();
  if (own_fd_ >= 0) {
    ::close(std::exchange(own_fd_, -1));
  }
  if (S_ISREG(file.st_mode)) {
    way_ = Way::kPlain;
  } else if (S_ISSOCK(file.st_mode)) {
    way_ = Way::kMessage;
  } else {
    const std::string path = "/proc/self/fd/" + std::to_string(fd_);
    own_fd_ = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    way_ = own_fd_ >= 0 ? Way::kOwn : Way::kAsk;
  }
}

ssize_t LineWriter::write_some(std::string_view bytes) const {
  switch (way_) {
    case Way::kPlain:
      return ::write(fd_, bytes.data(), bytes.size());
    case Way::kOwn:
      return ::write(own_fd_, bytes.data(), bytes.size());
    case Way::kMessage:
      return ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    case Way::kAsk: {
      pollfd asked{.fd = fd_, .events = POLLOUT, .revents = 0};
      if (::poll(&asked, 1, 0) != 1 || (asked.revents & POLLOUT) == 0) {
        errno = EAGAIN;
        return -1;
      }
      return ::write(fd_, bytes.data(), bytes.size());
    }
  }
  return -1;
}

bool LineWriter::write(std::string_view line, int priority) {
  look_again();
  return is_journal_ ? write_whole("<" + std::to_string(priority) + ">" + std::string(line))
                     : write_whole(line);
}

bool LineWriter::write_whole(std::string_view line) {
  bool of_this_line = false;
  std::string_view left = rest_.empty() ? line : std::string_view(rest_);
  while (true) {
    const bool is_rest = !rest_.empty();
    const ssize_t count = write_some(left);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      break;
    }
    left.remove_prefix(static_cast<std::size_t>(count));
    of_this_line = of_this_line || (!is_rest && count > 0);
    if (!left.empty()) {
      continue;
    }
    rest_.clear();
    if (!is_rest) {
      return true;
    }
    left = line;
  }
  if (!rest_.empty()) {
    rest_ = std::string(left);
  } else if (of_this_line) {
    rest_ = std::string(left);
    return true;
  }
  return false;
}

}  // namespace phalanx::obs
