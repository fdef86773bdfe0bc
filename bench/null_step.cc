// SPDX-License-Identifier: Apache-2.0
// Round trip of a step that does nothing, replica → ranks → replica, through the real codec and
// channels, each rank a process pinned to a core. One line of JSON.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/ipc/blocking_channel.h"
#include "phalanx/ipc/bound_channel.h"
#include "phalanx/os/child_process.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/wire/codec.h"

#include "machine.h"
#include "usage.h"

namespace phalanx::bench {
namespace {

constexpr char kUsage[] =
    "usage: null_step [RANKS [STEPS [idle|busy]]]\n"
    "1 to 64 ranks (2), steps (20000); busy: every core has a thread that competes with them";

constexpr Duration kPatience = std::chrono::seconds(30);

// The child: answers each command with a reply of the same identity, until kShutdown or silence.
int run_rank(std::uint32_t rank) {
  auto control = os::ControlSocket::adopt(os::UniqueFd(os::kChildControlFd));
  PHALANX_CHECK(control, "control socket");
  const auto endpoint = control->receive_until(std::chrono::steady_clock::now() + kPatience);
  PHALANX_CHECK(endpoint, "endpoint");
  auto context = ipc::ZmqContext::create();
  PHALANX_CHECK(context, "context");
  auto channel = ipc::BlockingChannel::connect(*context, endpoint->bytes, {});
  PHALANX_CHECK(channel, "channel");
  wire::RankReply reply;
  reply.rank = RankId(rank);
  PHALANX_CHECK(channel->send(wire::encode(reply), kPatience), "hello");
  while (true) {
    const auto frame = channel->receive(kPatience);
    if (!frame || !*frame) {
      return 69;
    }
    const auto command = wire::decode_rank_command(**frame);
    PHALANX_CHECK(command, "command");
    if (command->op == wire::RankOp::kShutdown) {
      return 0;
    }
    reply.epoch = command->epoch;
    reply.step = command->step;
    reply.op = command->op;
    PHALANX_CHECK(channel->send(wire::encode(reply), kPatience), "reply");
  }
}

class Replica {
 public:
  explicit Replica(std::uint32_t ranks) : context_(*ipc::ZmqContext::create()) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      auto child =
          os::ChildProcess::spawn({.program = "/proc/self/exe",
                                   .arguments = {"null_step: rank", "--rank", std::to_string(rank)},
                                   .environment = {}});
      PHALANX_CHECK(child, "spawn");
      auto channel = ipc::BoundChannel::bind(
          context_,
          loop_,
          child->pid(),
          {.on_frame = [this](std::string_view frame) { on_frame(frame); }, .on_writable = nullptr},
          {});
      PHALANX_CHECK(channel, "bind");
      PHALANX_CHECK(child->control().send((*channel)->endpoint()), "bootstrap");
      children_.push_back(*std::move(child));
      channels_.push_back(*std::move(channel));
    }
  }

  // Times of `steps` steps after a tenth more to warm up.
  std::vector<std::uint64_t> run(int steps) {
    steps_left_ = steps + steps / 10;
    warm_up_ = steps / 10;
    loop_.run();
    wire::RankCommand stop;
    stop.op = wire::RankOp::kShutdown;
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      PHALANX_CHECK(channels_[rank]->send(wire::encode(stop)) == wire::Sent::kQueued, "shutdown");
      PHALANX_CHECK(children_[rank].wait_exit(std::chrono::steady_clock::now() + kPatience),
                    "exit");
    }
    return std::move(times_);
  }

 private:
  void on_frame(std::string_view frame) {
    const auto reply = wire::decode_rank_reply(frame);
    PHALANX_CHECK(reply && reply->step == command_.step, "a reply to the step");
    if (++replies_ < children_.size()) {
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (command_.step.value() > 0 && warm_up_-- <= 0) {
      times_.push_back(static_cast<std::uint64_t>(std::chrono::nanoseconds(now - sent_).count()));
    }
    if (steps_left_-- == 0) {
      loop_.stop();
      return;
    }
    begin_step();
  }

  void begin_step() {
    replies_ = 0;
    command_.step = StepId(command_.step.value() + 1);
    command_.op = wire::RankOp::kPing;
    sent_ = std::chrono::steady_clock::now();
    const std::string frame = wire::encode(command_);
    for (const auto& channel : channels_) {
      PHALANX_CHECK(channel->send(frame) == wire::Sent::kQueued, "send");
    }
  }

  ipc::ZmqContext context_;
  os::EventLoop loop_;
  std::vector<os::ChildProcess> children_;
  std::vector<std::unique_ptr<ipc::BoundChannel>> channels_;
  wire::RankCommand command_;
  std::size_t replies_ = 0;
  SteadyTime sent_;
  int steps_left_ = 0;
  int warm_up_ = 0;
  std::vector<std::uint64_t> times_;
};

// Threads that never rest, one per core.
class Burners {
 public:
  explicit Burners(bool wanted) {
    for (std::size_t i = 0; wanted && i < os::allowed_cpus().size(); ++i) {
      threads_.emplace_back([this] {
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  Burners(const Burners&) = delete;
  Burners& operator=(const Burners&) = delete;
  ~Burners() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

int run_replica(std::uint32_t ranks, int steps, bool busy) {
  const std::string machine = machine_json();
  Replica replica(ranks);
  const Burners burners(busy);
  std::vector<std::uint64_t> times = replica.run(steps);
  std::printf("{\"bench\":\"null_step\",\"ranks\":%u,\"cores_busy\":%s,%s,%s}\n",
              ranks,
              busy ? "true" : "false",
              percentiles_json(times).c_str(),
              machine.c_str());
  return 0;
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  if (phalanx::bench::asks_for_help(argc, argv)) {
    std::puts(phalanx::bench::kUsage);
    return 0;
  }
  if (argc > 2 && std::string(argv[1]) == "--rank") {
    const auto rank = static_cast<std::uint32_t>(std::strtol(argv[2], nullptr, 10));
    const phalanx::os::CpuList cpus = phalanx::os::allowed_cpus();
    if (!phalanx::os::pin_current_thread({cpus[rank % cpus.size()]})) {
      return 71;
    }
    return phalanx::bench::run_rank(rank);
  }
  const auto ranks = phalanx::bench::number_at(argc, argv, 1, 2, 1, 64);
  const auto steps = phalanx::bench::number_at(argc, argv, 2, 20'000, 1, 100'000'000);
  const std::string cores = argc > 3 ? argv[3] : "idle";
  if (argc > 4 || !ranks || !steps || (cores != "idle" && cores != "busy")) {
    std::fprintf(stderr, "%s\n", phalanx::bench::kUsage);
    return 64;
  }
  return phalanx::bench::run_replica(
      static_cast<std::uint32_t>(*ranks), static_cast<int>(*steps), cores == "busy");
}
