// SPDX-License-Identifier: Apache-2.0
// Ten thousand random events per seed: commands, reports, deaths, failed spawns, time. Whatever
// comes, the promises of the supervisor hold after each of them.
#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "supervisor_world.h"

namespace phalanx::supervise {
namespace {

constexpr std::size_t kSlots = 3;
constexpr int kEvents = 10'000;

class Walk {
 public:
  // The first start is over sooner or later.
  explicit Walk(std::uint32_t seed)
      : first_start_(seed % 2 == 0 ? 0 : kEvents / 2),
        random_(seed),
        world_(kSlots, World::exact()) {}

  void run() {
    for (int i = 0; i < kEvents; ++i) {
      if (i == first_start_) {
        world_.supervisor.end_first_start();
      }
      const std::size_t slot = random_() % kSlots;
      before_ = snapshot();
      commanded_ = false;
      random_event(slot);
      ASSERT_NO_FATAL_FAILURE(check(i));
    }
    ASSERT_NO_FATAL_FAILURE(end());
  }

 private:
  struct SlotView {
    State state = State::kStopped;
    Incarnation incarnation;
  };

  [[nodiscard]] std::vector<SlotView> snapshot() const {
    std::vector<SlotView> views;
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      views.push_back({world_.state(slot), world_.incarnation(slot)});
    }
    return views;
  }

  // Now and then a report names an incarnation that is gone.
  [[nodiscard]] Incarnation some_incarnation(std::size_t slot) {
    const std::uint32_t latest = world_.incarnation(slot).value();
    return Incarnation(random_() % 5 == 0 && latest > 0 ? latest - 1 : latest);
  }

  void random_event(std::size_t slot) {
    switch (random_() % 16) {
      case 0:
        commanded_ = true;
        return world_.supervisor.start(slot);
      case 1:
        if (random_() % 4 != 0) {
          return world_.supervisor.drain(slot);
        }
        commanded_ = true;
        restart_ordered_[slot] = true;  // a living process ends first
        return world_.supervisor.restart(slot);
      case 2:
        commanded_ = true;
        return world_.supervisor.resume(slot);
      case 3:
        if (random_() % 4 != 0) {
          return world_.pass(random_time());
        }
        restart_ordered_[slot] = false;
        return world_.supervisor.stop(slot);
      case 4:
        return world_.supervisor.on_progress(slot, some_incarnation(slot));
      case 5:
      case 6:
      case 7:
        return world_.supervisor.on_ready(slot, some_incarnation(slot));
      case 8:
        return world_.supervisor.on_recovering(slot, some_incarnation(slot));
      case 9:
        return world_.supervisor.on_hung(slot, some_incarnation(slot), "test");
      case 10:
        world_.runner.next_error = unavailable("no process today");
        return;
      case 11:
      case 12:
        return random_death(slot);
      default:
        return world_.pass(random_time());
    }
  }

  [[nodiscard]] Duration random_time() { return std::chrono::milliseconds(random_() % 3000); }

  void random_death(std::size_t slot) {
    if (world_.runner.processes.count(slot) == 0) {
      return;
    }
    died_at_[slot] = world_.clock.now();
    world_.die(random_() % 8 == 0 ? os::ExitReason(os::Exited{65})
                                  : os::ExitReason(os::Signaled{SIGKILL, false}),
               slot);
  }

  void check(int event) {
    ASSERT_EQ(world_.runner.double_spawns, 0) << "two live children in one slot, event " << event;
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const State state = world_.state(slot);
      ASSERT_EQ(world_.runner.processes.count(slot) > 0, has_process(state))
          << "state " << to_string(state) << ", event " << event;
      const bool started = world_.incarnation(slot) != before_[slot].incarnation;
      const bool ordered = commanded_ || (started && before_[slot].state == State::kStopping &&
                                          std::exchange(restart_ordered_[slot], false));
      if (started && !ordered) {
        ASSERT_EQ(before_[slot].state, State::kBackoff)
            << "started by itself from " << to_string(before_[slot].state);
        ASSERT_GE(world_.clock.now() - died_at_[slot], std::chrono::milliseconds(100))
            << "restarted sooner than the backoff";
      }
      if (before_[slot].state == State::kFailed && !commanded_) {
        ASSERT_TRUE(state == State::kFailed || state == State::kStopped)
            << "a failed slot came back by itself";
      }
    }
  }

  // However it went: a stop ends in finite time, with nothing left once all that is killed dies.
  void end() {
    world_.supervisor.stop_all();
    for (int i = 0; i < 10 && !world_.runner.processes.empty(); ++i) {
      for (std::size_t slot = 0; slot < kSlots; ++slot) {
        if (world_.runner.processes.count(slot) == 0) {
          continue;
        }
        const auto& signals = world_.runner.processes[slot].signals;
        if (std::find(signals.begin(), signals.end(), SIGKILL) != signals.end()) {
          world_.die(os::Signaled{SIGKILL, false}, slot);
        }
      }
      world_.pass(std::chrono::seconds(10));
    }
    ASSERT_TRUE(world_.supervisor.all_stopped());
    ASSERT_TRUE(world_.runner.processes.empty());
    ASSERT_FALSE(world_.supervisor.next_deadline());
  }

  int first_start_;  // events
  std::mt19937 random_;
  World world_;
  std::vector<SlotView> before_;
  std::map<std::size_t, SteadyTime> died_at_;
  std::map<std::size_t, bool> restart_ordered_;
  bool commanded_ = false;
};

class SupervisorRandomWalk : public testing::TestWithParam<std::uint32_t> {};

TEST_P(SupervisorRandomWalk, KeepsItsPromises) {
  Walk(GetParam()).run();
}

INSTANTIATE_TEST_SUITE_P(Seeds, SupervisorRandomWalk, testing::Range(1U, 9U));

}  // namespace
}  // namespace phalanx::supervise
