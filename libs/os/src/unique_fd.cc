// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/unique_fd.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

namespace phalanx::os {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0 && fd_ != fd) {
    // EINTR is no reason to repeat: Linux has released the number by then.
    ::close(fd_);
  }
  fd_ = fd;
}

Result<UniqueFd> UniqueFd::duplicate() const {
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    return errno_error("duplicating a descriptor", errno);
  }
  return UniqueFd(copy);
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return errno_error("creating a pipe", errno);
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::string_view limit_of_descriptors(int errno_value) {
  switch (errno_value) {
    case EMFILE:
      return "the limit of this process (see ulimit -n)";
    case ENFILE:
      return "the limit of the machine (see sysctl fs.file-max)";
    case ENOSPC:
      return "the limit of what epoll watches (see sysctl fs.epoll.max_user_watches)";
    case ENOMEM:
      return "memory of the kernel, of the machine or of a container";
    default:
      return "the kernel";
  }
}

Status require_descriptors(std::size_t count) {
  const UniqueFd watching(::epoll_create1(EPOLL_CLOEXEC));
  if (!watching.valid()) {
    return errno_error("creating an epoll descriptor", errno);
  }
  std::vector<UniqueFd> held;
  for (std::size_t i = 0; i < count; ++i) {
    held.emplace_back(::eventfd(0, EFD_CLOEXEC));
    epoll_event nothing{};
    if (!held.back().valid() ||
        ::epoll_ctl(watching.get(), EPOLL_CTL_ADD, held.back().get(), &nothing) != 0) {
      const int code = errno;
      return errno_error(std::to_string(count) + " descriptors are needed, " +
                             std::string(limit_of_descriptors(code)) + " allows " +
                             std::to_string(i),
                         code);
    }
  }
  return ok();
}

}  // namespace phalanx::os
