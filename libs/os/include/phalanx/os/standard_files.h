// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/patient_output.h"

namespace phalanx::os {

// First of all in a program: standard input, output and error are open, be it /dev/null, as the next
// file that is opened would else be one of them, and get what is written there; output that was
// closed is so that writing it is an error. And a file that may not become larger is an error for
// who writes it, and not a signal.
// Blocks: never. Where not even /dev/null can be opened nothing is changed.
void prepare_program();

// Writes `text` to standard output, for a program without a loop.
// Blocks: until it is written.
// Errors: kResourceExhausted  standard output takes no more; names it and the cause
[[nodiscard]] Status print(std::string_view text);

// Standard output for a program with a loop: who reads it may take his time.
//
// Ownership: borrows the loop.
// Threads: the loop thread.
class StandardOutput {
 public:
  using Written = std::function<void(Status)>;

  explicit StandardOutput(EventLoop& loop);

  // Behind all that was given before. `written` runs once, from the loop, when the last byte is
  // written or the first error has come; it may be empty.
  // Errors: as print(); the rest of that text is dropped
  void write(std::string text, Written written = nullptr);

 private:
  struct Text {
    std::string bytes;
    Written written;
    std::size_t done = 0;
  };

  void write_some();
  void end_first(Status status);

  EventLoop& loop_;
  PatientOutput output_;
  std::deque<Text> texts_;
  std::unique_ptr<EventLoop::Handle> again_;
};

}  // namespace phalanx::os
