// SPDX-License-Identifier: Apache-2.0
#include "support/epoll_shortage.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

namespace phalanx::test {
namespace {

thread_local std::optional<std::size_t> left_on_thread;

}  // namespace

EpollShortage::EpollShortage(std::size_t left) {
  left_on_thread = left;
}

EpollShortage::~EpollShortage() {
  left_on_thread.reset();
}

}  // namespace phalanx::test

// Instead of that of the C library.
extern "C" int epoll_ctl(int epfd, int op, int fd, epoll_event* event) noexcept {
  std::optional<std::size_t>& left = phalanx::test::left_on_thread;
  if (op == EPOLL_CTL_ADD && left && (*left)-- == 0) {
    *left = 0;
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_epoll_ctl, epfd, op, fd, event));
}
