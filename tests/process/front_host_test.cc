// SPDX-License-Identifier: Apache-2.0
// Fronts as processes, with this program as the front: what is said of a front's end is said behind
// it. It is its own child; what it does then is the model's name in its bootstrap.
#include "phalanx/keeper/front_host.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/base/check.h"
#include "phalanx/fleet/child_start.h"
#include "phalanx/os/child_side.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/memfd.h"
#include "phalanx/os/process_title.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/limits.h"

namespace phalanx::keeper {
namespace {

constexpr std::string_view kQuiet = "quiet";      // says that it lives, for ever
constexpr std::string_view kTalker = "talker";    // says much and ends
constexpr std::string_view kWrong = "wrong";      // says what no front says, and goes on
constexpr std::string_view kVerbose = "verbose";  // says what is too long to be heard, and goes on
constexpr std::string_view kBrief = "brief";      // says that it is ready, and ends
constexpr int kRecords = 200;                     // of a talker

int be_front(int argc, char** argv) {
  const os::ProcessTitle title(argc, argv);
  wire::FrontBootstrap bootstrap;
  auto start = fleet::ChildStart::begin(&bootstrap);
  if (!start) {
    return fleet::fail_child(nullptr, start.error());
  }
  (*start)->tell(wire::ChildReady{});
  if (bootstrap.model_name == kBrief) {
    ::_exit(0);
  }
  const auto say = [&](const std::string& bytes) {
    while (*(*start)->control().send(bytes) == os::ControlSent::kWouldBlock) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  if (bootstrap.model_name == kWrong) {
    say("no record");
  }
  if (bootstrap.model_name == kVerbose) {
    const std::string record(os::kMaxControlRecordBytes + 1, 'x');
    const ssize_t sent = ::send((*start)->control().fd(), record.data(), record.size(), 0);
    PHALANX_CHECK(sent == static_cast<ssize_t>(record.size()), "it fits into the socket");
  }
  for (std::uint64_t i = 1; bootstrap.model_name != kTalker || i <= kRecords; ++i) {
    say(wire::encode(wire::FrontToLeader(wire::FrontTimes{.long_callbacks = i})));
    std::this_thread::sleep_for(
        std::chrono::milliseconds(bootstrap.model_name == kTalker ? 0 : 20));
  }
  ::_exit(0);
}

// One front, until its first end.
class FrontHostTest : public testing::Test {
 protected:
  void run(std::string_view as) {
    FrontStart start;
    start.fronts = 1;
    start.spares = 0;
    start.program = *os::HeldProgram::open("/proc/self/exe");
    start.bootstrap.common.protocol = wire::kProtocolVersion;
    start.bootstrap.common.log_level = "error";
    start.bootstrap.model_name = as;
    start.bootstrap.model_root = "somewhere";
    start.bootstrap.max_model_len = 1;
    start.bootstrap.vocab = 1;
    start.bootstrap.tokenizer_bytes = 1;
    start.bootstrap.max_body_bytes = 1;
    start.bootstrap.stream_buffer_bytes = 1;
    start.bootstrap.max_queued_reqs = 1;
    start.bootstrap.journal_bytes = journal_bytes_;
    start.bootstrap.journal_places = journal_bytes_ == 0 ? 0 : 1;
    start.trial_time = std::chrono::milliseconds(300);
    host_ = std::make_unique<FrontHost>(loop_, std::move(start), calls());
    host_->start(memory_.fd(), pipe_.read.get());
    if (killed_early_) {
      kill_once_it_has_said_that_it_is_ready();
    }
    const auto patience = loop_.call_after(std::chrono::seconds(20), [this] { loop_.stop(); });
    const auto ticks =
        loop_.call_every(std::chrono::milliseconds(100), [this] { host_->on_tick(); });
    loop_.run();
    host_.reset();
  }

  FrontCalls calls() {
    FrontCalls calls;
    calls.on_ready = [this](std::size_t front) {
      pid_ = host_->status(front).pid;
      ++readies_;
      if (journal_bytes_ != 0) {
        lack_a_journal(front);
      }
      if (!next_program_.empty() && refusal_.empty()) {
        host_->use_program(os::HeldProgram::open(next_program_).value());
        EXPECT_TRUE(host_->outdated(front));
        host_->replace(front);
      } else if (!next_program_.empty()) {
        EXPECT_FALSE(host_->outdated(front));
        loop_.stop();
      }
      if (signal_ != 0) {
        ::kill(pid_, signal_);
      }
    };
    calls.on_record = [this](std::size_t, const wire::FrontToLeader&) {
      ++records_;
      return ok();
    };
    calls.on_killed = [this](std::size_t) { ++kills_; };
    calls.on_gone = [this](std::size_t, const FrontEnd& end) {
      ends_.push_back(end.is_own);
      lived_ = ::kill(pid_, 0) == 0;
      if (next_program_.empty() && journal_bytes_ == 0) {
        loop_.stop();
      }
      return false;
    };
    calls.on_program_refused = [this](const Error& cause) { refusal_ = cause.message(); };
    calls.on_first_start_failed = [this](const Error& cause) {
      EXPECT_TRUE(killed_early_) << cause.message();
      loop_.stop();
    };
    calls.socket_of = [](std::uint64_t) { return -1; };
    return calls;
  }

  // The next one after the first has no room for a journal for a while.
  void lack_a_journal(std::size_t front) {
    have_journals_.push_back(host_->has_journal(front));
    if (have_journals_.size() > 1) {
      return loop_.stop();
    }
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &file_limit_), 0);
    const rlimit less{journal_bytes_ / 2, file_limit_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &less), 0);
    more_later_ = loop_.call_after(std::chrono::milliseconds(300),
                                   [this] { ::setrlimit(RLIMIT_FSIZE, &file_limit_); });
    ::kill(pid_, SIGKILL);
  }

  // Nothing of what it says has been read then.
  void kill_once_it_has_said_that_it_is_ready() {
    siginfo_t end{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(host_->status(0).pid), &end, WEXITED | WNOWAIT), 0);
    host_->on_stopped_by_signal(0, host_->status(0).incarnation);
  }

  os::EventLoop loop_;
  os::Memfd memory_ = *os::Memfd::create("phalanx-test", 1);
  os::Pipe pipe_ = *os::make_pipe();
  std::unique_ptr<FrontHost> host_;
  int signal_ = 0;            // sent to the front when it is ready
  std::string next_program_;  // tried then; until the one of before runs again
  std::string refusal_;
  pid_t pid_ = -1;
  bool killed_early_ = false;
  int readies_ = 0;
  int records_ = 0;
  int kills_ = 0;
  bool lived_ = false;  // when its end was told
  std::vector<bool> ends_;
  std::uint64_t journal_bytes_ = 0;
  std::vector<bool> have_journals_;  // fronts, when they were ready
  rlimit file_limit_{};
  std::unique_ptr<os::EventLoop::Handle> more_later_;
};

TEST_F(FrontHostTest, NobodyElseActsForAFrontThatIsStillThere) {
  signal_ = SIGSTOP;
  run(kQuiet);
  ASSERT_EQ(ends_, std::vector<bool>{false});
  EXPECT_FALSE(lived_) << "it could be continued, and write on";
  EXPECT_EQ(kills_, 1) << "who comes meanwhile goes to another one";
}

TEST_F(FrontHostTest, AFrontThatWasKilledBeforeItWasReadyNeverIs) {
  killed_early_ = true;
  run(kBrief);
  EXPECT_EQ(kills_, 1);
  EXPECT_EQ(readies_, 0) << "it would be given connections, and its program be the proven one";
  EXPECT_TRUE(ends_.empty()) << "it had none";
}

TEST_F(FrontHostTest, WhatADeadFrontHasSaidIsReadToTheEnd) {
  run(kTalker);
  ASSERT_EQ(ends_, std::vector<bool>{true});
  EXPECT_FALSE(lived_);
  EXPECT_EQ(records_, kRecords);
}

TEST_F(FrontHostTest, AFrontThatSaysWhatNoFrontSaysIsDeadBeforeThatIsTold) {
  run(kWrong);
  ASSERT_EQ(ends_, std::vector<bool>{true});
  EXPECT_FALSE(lived_);
}

TEST_F(FrontHostTest, AFrontOfWhichARecordIsLostIsDeadAsWhatItAskedForIsUnknown) {
  run(kVerbose);
  ASSERT_EQ(ends_, std::vector<bool>{true});
  EXPECT_FALSE(lived_);
}

TEST_F(FrontHostTest, AFrontForWhichThereIsNoJournalNowIsStartedWhenThereIsOne) {
  journal_bytes_ = std::uint64_t{1} << 20;
  run(kQuiet);
  EXPECT_EQ(have_journals_, (std::vector<bool>{true, true})) << "its death would end connections";
}

TEST_F(FrontHostTest, AProgramThatIsNotReadyInTimeIsRefusedForThat) {
  next_program_ = testing::TempDir() + "front_host_test_hangs";
  std::ofstream(next_program_) << "#!/bin/sh\nexec sleep 60\n";
  std::filesystem::permissions(next_program_, std::filesystem::perms::owner_all);
  run(kQuiet);
  EXPECT_EQ(refusal_, next_program_ + ": it is not ready in time");
  EXPECT_EQ(ends_.size(), 1U) << "only one was ever ready, and was replaced";
  std::filesystem::remove(next_program_);
}

TEST_F(FrontHostTest, AProgramThatCannotBeStartedIsRefused) {
  next_program_ = testing::TempDir() + "front_host_test_empty";
  std::ofstream(next_program_).flush();
  std::filesystem::permissions(next_program_, std::filesystem::perms::owner_all);
  run(kQuiet);
  EXPECT_NE(refusal_.find("Exec format error"), std::string::npos) << refusal_;
  std::filesystem::remove(next_program_);
}

}  // namespace
}  // namespace phalanx::keeper

int main(int argc, char** argv) {
  if (phalanx::os::has_control_socket()) {
    return phalanx::keeper::be_front(argc, argv);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
