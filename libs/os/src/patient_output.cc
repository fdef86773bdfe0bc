// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/patient_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>

namespace phalanx::os {

bool PatientOutput::look_again() {
  struct stat file {};
  if (::fstat(fd_, &file) != 0) {
    return false;
  }
  if (known_ && file.st_dev == device_ && file.st_ino == inode_) {
    return false;
  }
  known_ = true;
  device_ = file.st_dev;
  inode_ = file.st_ino;
  own_.reset();
  const bool takes_nothing = (::fcntl(fd_, F_GETFL) & O_ACCMODE) == O_RDONLY;
  if (S_ISREG(file.st_mode) || takes_nothing) {
    way_ = Way::kPlain;
  } else if (S_ISSOCK(file.st_mode)) {
    way_ = Way::kMessage;
  } else {
    const std::string path = "/proc/self/fd/" + std::to_string(fd_);
    own_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    way_ = own_.valid() ? Way::kOwn : Way::kAsk;
  }
  return true;
}

ssize_t PatientOutput::write_some(std::string_view bytes) const {
  switch (way_) {
    case Way::kPlain:
      return ::write(fd_, bytes.data(), bytes.size());
    case Way::kOwn:
      return ::write(own_.get(), bytes.data(), bytes.size());
    case Way::kMessage:
      return ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    case Way::kAsk: {
      pollfd asked{.fd = fd_, .events = POLLOUT, .revents = 0};
      if (::poll(&asked, 1, 0) != 1) {
        errno = EAGAIN;
        return -1;
      }
      return ::write(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
    }
  }
  return -1;
}

}  // namespace phalanx::os
