// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "phalanx/os/patient_output.h"

namespace phalanx::obs {

// Writes lines to a descriptor and never waits for who reads it: a line for which there is no room
// is not written.
//
// Where the descriptor is the stream of the journal that $JOURNAL_STREAM names, by its device and
// inode, a line begins with its priority, as in "<4>", which the journal takes off.
//
// Ownership: borrows the descriptor, which may be replaced by another file behind it at any time.
// Threads: one at a time.
// Blocks: never on a pipe, terminal or socket.
class LineWriter {
 public:
  explicit LineWriter(int fd) : output_(fd) {}

  // False if nothing of `line` was or will be written. Of a line that was taken in part the rest
  // is written before the next one. `priority` is that of syslog(3): 3 an error, 7 a detail.
  // Requires: at most PIPE_BUF bytes, three of them for the priority, so that lines of several
  // processes stay whole.
  [[nodiscard]] bool write(std::string_view line, int priority);

 private:
  void look_again();
  [[nodiscard]] bool write_whole(std::string_view line);

  os::PatientOutput output_;
  bool is_journal_ = false;
  std::string rest_;
};

}  // namespace phalanx::obs
