// SPDX-License-Identifier: Apache-2.0
// Channels between processes: whom they admit, and what a new incarnation gets to see.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <vector>

#include "loop_fixture.h"

extern char** environ;

namespace phalanx::ipc {
namespace {

using wire::Sent;

// A process of ipc_test_peer, killed and reaped at the end.
class Peer {
 public:
  Peer() {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe[0], 0);
    std::string path = PHALANX_IPC_TEST_PEER;
    std::array<char*, 2> argv{path.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, path.c_str(), &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[0]);
    input_ = pipe[1];
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() {
    if (pid_ > 0) {
      kill();
    }
  }

  [[nodiscard]] pid_t pid() const { return pid_; }

  void connect_to(const std::string& endpoint) {
    const std::string line = endpoint + "\n";
    EXPECT_EQ(::write(input_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
    ::close(input_);
  }

  void kill() {
    ::kill(pid_, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(reap()));
  }

  int reap() {
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
};

class IpcProcess : public LoopTest {
 protected:
  [[nodiscard]] ChannelHandlers collect() {
    return {.on_frame = [this](std::string_view frame) { frames_.emplace_back(frame); },
            .on_writable = nullptr};
  }
  std::vector<std::string> frames_;
};

TEST_F(IpcProcess, AdmitsTheChildItWasBoundFor) {
  Peer peer;
  const auto channel = bind(collect(), {}, peer.pid());
  peer.connect_to(channel->endpoint());
  run_until([&] { return frames_.size() == 1; });
  EXPECT_EQ(frames_[0], std::to_string(peer.pid()));
  EXPECT_EQ(channel->send("work"), Sent::kQueued);
  run_until([&] { return frames_.size() == 2; });
  EXPECT_EQ(frames_[1], std::to_string(peer.pid()) + " got work");
  EXPECT_EQ(channel->send("stop"), Sent::kQueued);
  const int status = peer.reap();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(IpcProcess, RefusesAnyOtherProcess) {
  Peer child;
  Peer foreigner;
  const auto channel = bind(collect(), {}, child.pid());
  foreigner.connect_to(channel->endpoint());
  const int status = foreigner.reap();  // it gives up sending after its own deadline
  EXPECT_TRUE(WIFEXITED(status));
  run_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(frames_.empty());
  EXPECT_EQ(channel->send("work"), Sent::kWouldBlock);
  child.connect_to(channel->endpoint());
  run_until([&] { return frames_.size() == 1; });
  EXPECT_EQ(frames_[0], std::to_string(child.pid()));
}

TEST_F(IpcProcess, KeepsFramesOfAKilledChildFromItsSuccessor) {
  for (int round = 0; round < 10; ++round) {
    frames_.clear();
    Peer first;
    auto channel = bind(collect(), {}, first.pid());
    first.connect_to(channel->endpoint());
    run_until([&] { return frames_.size() == 1; });
    ::kill(first.pid(), SIGSTOP);
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(channel->send("stale"), Sent::kQueued);
    }
    first.kill();
    frames_.clear();
    Peer second;
    channel = bind(collect(), {}, second.pid());
    second.connect_to(channel->endpoint());
    run_until([&] { return frames_.size() == 1; });
    EXPECT_EQ(channel->send("fresh"), Sent::kQueued);
    run_until([&] { return frames_.size() == 2; });
    EXPECT_EQ(frames_[1], std::to_string(second.pid()) + " got fresh");
  }
}

TEST_F(IpcProcess, AnswersWouldBlockAfterTheChildHasGone) {
  Peer peer;
  const auto channel = bind(collect(), {}, peer.pid());
  peer.connect_to(channel->endpoint());
  run_until([&] { return frames_.size() == 1; });
  peer.kill();
  run_until([&] { return channel->send("to nobody") == Sent::kWouldBlock; });
}

}  // namespace
}  // namespace phalanx::ipc
