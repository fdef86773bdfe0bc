// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace phalanx::obs {

// Writes lines to a descriptor and never waits for who reads it: a line for which there is no room
// is not written. A pipe or terminal is opened once more for that, as the flag that makes writes
// not wait belongs to everybody who shares the opening; where it cannot be opened, the descriptor
// is asked first whether it takes a line. Files are written as they are.
//
// Where the descriptor is the stream of the journal that $JOURNAL_STREAM names, by its device and
// inode, a line begins with its priority, as in "<4>", which the journal takes off.
//
// Ownership: borrows the descriptor, which may be replaced by another file behind it at any time.
// Threads: one at a time.
// Blocks: never on a pipe, terminal or socket.
class LineWriter {
 public:
  explicit LineWriter(int fd) : fd_(fd) {}
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  ~LineWriter();

  // False if nothing of `line` was or will be written. Of a line that was taken in part the rest
  // is written before the next one. `priority` is that of syslog(3): 3 an error, 7 a detail.
  // Requires: at most PIPE_BUF bytes, three of them for the priority, so that lines of several
  // processes stay whole.
  [[nodiscard]] bool write(std::string_view line, int priority);

 private:
  enum class Way {
    kPlain,    // a file: takes everything
    kOwn,      // an opening of our own, which does not wait
    kMessage,  // a socket: told with each write not to wait
    kAsk       // poll() first
  };

  void look_again();
  [[nodiscard]] bool write_whole(std::string_view line);
  [[nodiscard]] ssize_t write_some(std::string_view bytes) const;

  int fd_;
  int own_fd_ = -1;
  Way way_ = Way::kAsk;
  bool known_ = false;
  bool is_journal_ = false;
  dev_t device_ = 0;  // of the file last seen behind fd_
  ino_t inode_ = 0;
  std::string rest_;
};

}  // namespace phalanx::obs
