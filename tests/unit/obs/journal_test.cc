// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/obs/log.h"

namespace phalanx::obs {
namespace {

// Standard error of this process is a stream, of which JOURNAL_STREAM says that it is the
// journal's, or that another one is.
class StreamStderr {
 public:
  explicit StreamStderr(bool is_journal) : saved_(::dup(STDERR_FILENO)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    read_ = ends[0];
    struct stat file {};
    EXPECT_EQ(::fstat(ends[is_journal ? 1 : 0], &file), 0);
    const std::string stream = std::to_string(file.st_dev) + ":" + std::to_string(file.st_ino);
    EXPECT_EQ(::setenv("JOURNAL_STREAM", stream.c_str(), 1), 0);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
  }
  StreamStderr(const StreamStderr&) = delete;
  StreamStderr& operator=(const StreamStderr&) = delete;
  ~StreamStderr() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(read_);
    ::unsetenv("JOURNAL_STREAM");
  }

  // What is there now, without times.
  std::string drain() {
    ::fcntl(read_, F_SETFL, O_NONBLOCK);
    std::array<char, 65536> bytes{};
    const ssize_t count = ::read(read_, bytes.data(), bytes.size());
    const std::string all(bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
    return std::regex_replace(all, std::regex(R"(\d{4}-\S*Z )"), "");
  }

 private:
  int saved_;
  int read_ = -1;
};

void log_at_every_level() {
  set_log_level(LogLevel::kTrace);
  log_error("a");
  log_warn("b");
  log_info("c");
  log_debug("d");
  log_trace("e");
  print_lines("f\ng");
  print_lines("h", LogLevel::kError);
  set_log_level(LogLevel::kInfo);
}

// Without the fields that start_log() sets, which another test may have called.
std::string bare(const std::string& lines) {
  return std::regex_replace(lines, std::regex(R"((role|dp|tp|pid)=\S* )"), "");
}

TEST(Journal, LinesBeginWithTheirPriority) {
  StreamStderr journal(true);
  log_at_every_level();
  EXPECT_EQ(bare(journal.drain()),
            "<3>error a\n<4>warning b\n<6>info c\n<7>debug d\n<7>trace e\n<6>f\n<6>g\n<3>h\n");
  EXPECT_FALSE(recent_log_lines().back().starts_with('<')) << "what is kept is for people";
}

TEST(Journal, AnotherStreamIsNone) {
  StreamStderr other(false);
  log_at_every_level();
  EXPECT_EQ(bare(other.drain()), "error a\nwarning b\ninfo c\ndebug d\ntrace e\nf\ng\nh\n");
}

}  // namespace
}  // namespace phalanx::obs
