// SPDX-License-Identifier: Apache-2.0
#include "line_writer.h"

#include <cerrno>
#include <cstdlib>

namespace phalanx::obs {

namespace {

// systemd sets the variable to "DEVICE:INODE" of the stream that it starts a service with; whoever
// was given another one since has inherited the variable all the same.
bool is_journal(const os::PatientOutput& output) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  const char* const stream = std::getenv("JOURNAL_STREAM");
  return stream != nullptr &&
         stream == std::to_string(output.device()) + ":" + std::to_string(output.inode());
}

}  // namespace

void LineWriter::look_again() {
  if (output_.look_again()) {
    is_journal_ = is_journal(output_);
    rest_.clear();
  }
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
    const ssize_t count = output_.write_some(left);
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
