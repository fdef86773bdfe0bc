// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string_view>

#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

// Writes to a descriptor that others have, too, and never waits for who reads it. A pipe or
// terminal is opened once more for that, as the flag that makes writes not wait belongs to
// everybody who shares the opening; poll(2) does not tell how much a terminal takes. Where it
// cannot be opened, the descriptor is asked first whether it takes something.
//
// Ownership: borrows the descriptor, which may be replaced by another file behind it at any time.
// Threads: one at a time.
// Blocks: never on a pipe, terminal or socket, but where one can neither be opened nor takes
// PIPE_BUF bytes although it is ready. Files are written as they are.
class PatientOutput {
 public:
  explicit PatientOutput(int fd) : fd_(fd) {}

  // Finds out how to write to what is behind the descriptor now. True: another file than before.
  bool look_again();

  // As write(2), also in errno: EAGAIN if nothing is taken now. Requires: look_again() before.
  [[nodiscard]] ssize_t write_some(std::string_view bytes) const;

  // Of the file last seen behind the descriptor.
  [[nodiscard]] dev_t device() const { return device_; }
  [[nodiscard]] ino_t inode() const { return inode_; }

 private:
  enum class Way {
    kPlain,    // a file: takes everything; one that was opened for reading only: nothing
    kOwn,      // an opening of our own, which does not wait
    kMessage,  // a socket: told with each write not to wait
    kAsk       // poll() first
  };

  int fd_;
  UniqueFd own_;
  Way way_ = Way::kAsk;
  bool known_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace phalanx::os
