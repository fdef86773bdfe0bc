// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace phalanx::test {

// As long as it lives, epoll watches so many descriptors more that this thread adds, and refuses
// others as fs.epoll.max_user_watches does. Other threads, ZeroMQ's among them, notice nothing.
//
// Threads: one object on each at a time.
class EpollShortage {
 public:
  explicit EpollShortage(std::size_t left = 0);
  EpollShortage(const EpollShortage&) = delete;
  EpollShortage& operator=(const EpollShortage&) = delete;
  ~EpollShortage();
};

}  // namespace phalanx::test
