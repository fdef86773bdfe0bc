// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "phalanx/base/result.h"

namespace phalanx::os {

// Owns one descriptor and closes it. An empty one holds -1.
// Threads: as an int; the owner decides.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }

  // Gives the descriptor away; the caller closes it.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  // Closes what is held and takes `fd`.
  void reset(int fd = -1);

  // A second descriptor of the same open file, close-on-exec.
  [[nodiscard]] Result<UniqueFd> duplicate() const;

 private:
  int fd_ = -1;
};

// A pipe, both ends close-on-exec and non-blocking. A lifeline is such a pipe: the parent keeps
// `write` and never writes; whoever holds `read` sees end of file when the parent is gone.
struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
[[nodiscard]] Result<Pipe> make_pipe();

// What lets no descriptor be had where the kernel says `errno_value`, for people: the limit of the
// process and that of the machine each with the setting that raises it; else "the kernel".
[[nodiscard]] std::string_view limit_of_descriptors(int errno_value);

// Whether this process can open `count` descriptors more and epoll can watch them, found out by
// doing so. For what ends the process where it finds none.
// Errors: kResourceExhausted  the limit of the process, of the machine or of epoll, by its name
[[nodiscard]] Status require_descriptors(std::size_t count);

}  // namespace phalanx::os
