// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "phalanx/obs/log.h"

namespace phalanx::obs {
namespace {

// Standard error of this process is one end of something that nobody reads until the test does.
class StalledStderr {
 public:
  enum class Kind { kPipe, kSocket };

  explicit StalledStderr(Kind kind) : saved_(::dup(STDERR_FILENO)) {
    std::array<int, 2> ends{};
    const int made = kind == Kind::kPipe
                         ? ::pipe2(ends.data(), O_CLOEXEC)
                         : ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
    EXPECT_EQ(made, 0);
    read_ = ends[0];
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
  }
  StalledStderr(const StalledStderr&) = delete;
  StalledStderr& operator=(const StalledStderr&) = delete;
  ~StalledStderr() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(read_);
  }

  // What is there now.
  std::string drain() {
    ::fcntl(read_, F_SETFL, O_NONBLOCK);
    std::string all;
    std::array<char, 65536> bytes{};
    for (ssize_t count = 0; (count = ::read(read_, bytes.data(), bytes.size())) > 0;) {
      all.append(bytes.data(), static_cast<std::size_t>(count));
    }
    return all;
  }

 private:
  int saved_;
  int read_ = -1;
};

class StalledLog : public testing::TestWithParam<StalledStderr::Kind> {};

// Of plain lines, before the first line of the log and after its last.
TEST_P(StalledLog, PlainLinesWaitNoLongerThanTheyMay) {
  const std::uint64_t before = log_lines_dropped();
  std::chrono::steady_clock::duration took{};
  std::string first;
  std::string last;
  {
    StalledStderr stalled(GetParam());
    print_lines("phalanxd\n  model  tiny\n");
    first = stalled.drain();
    for (int i = 0; i < 400; ++i) {
      print_lines(std::string(3000, 'x'));
    }
    const auto begin = std::chrono::steady_clock::now();
    print_lines("lost", LogLevel::kInfo, std::chrono::milliseconds(100));
    took = std::chrono::steady_clock::now() - begin;
    static_cast<void>(stalled.drain());
    print_lines("phalanxd: the cause", LogLevel::kError, std::chrono::seconds(20));
    last = stalled.drain();
  }
  EXPECT_EQ(first, "phalanxd\n  model  tiny\n");
  EXPECT_GE(took, std::chrono::milliseconds(100));
  EXPECT_GT(log_lines_dropped(), before);
  EXPECT_NE(last.find("log_lines_dropped lines="), std::string::npos) << last;
  EXPECT_NE(last.find("\nphalanxd: the cause\n"), std::string::npos) << last;
}

// Logs far more than fits; whether that came to its end while nobody read.
TEST_P(StalledLog, DropsLinesAndTellsHowMany) {
  constexpr int kLines = 5000;
  std::string whole;
  std::string after;
  bool waited = false;
  const std::uint64_t before = log_lines_dropped();
  {
    StalledStderr stalled(GetParam());
    std::atomic<bool> done = false;
    std::thread writer([&] {
      for (int i = 0; i < kLines; ++i) {
        log_error("filler", {{"i", i}, {"text", std::string(200, 'x')}});
      }
      done = true;
    });
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    waited = !done;
    while (!done) {
      whole += stalled.drain();
    }
    writer.join();
    whole += stalled.drain();
    log_error("after", {});
    after = stalled.drain();
  }
  EXPECT_FALSE(waited) << "the writer waited for a reader";
  const std::uint64_t dropped = log_lines_dropped() - before;
  EXPECT_GT(dropped, 0U);
  std::uint64_t written = 0;
  for (std::size_t at = 0; (at = whole.find("filler i=", at)) != std::string::npos; ++at) {
    ++written;
  }
  EXPECT_GT(written, 0U);
  EXPECT_NEAR(static_cast<double>(written + dropped), kLines, 1.0);  // one may be cut in two
  // A gap that is too small for a line may have had room for the notice.
  const std::string all = whole + after;
  const std::string notice = "log_lines_dropped lines=";
  std::uint64_t told = 0;
  for (std::size_t at = 0; (at = all.find(notice, at)) != std::string::npos;) {
    at += notice.size();
    told += std::stoull(all.substr(at));
  }
  EXPECT_EQ(told, dropped) << after;
  EXPECT_NE(after.find(notice), std::string::npos) << after;
  EXPECT_NE(after.find(" after\n"), std::string::npos) << after;
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         StalledLog,
                         testing::Values(StalledStderr::Kind::kPipe, StalledStderr::Kind::kSocket));

}  // namespace
}  // namespace phalanx::obs
