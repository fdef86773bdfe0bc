// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/leader_phases.h"

#include <algorithm>
#include <csignal>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "support/manual_clock.h"

namespace phalanx::fleet {
namespace {

using std::chrono::milliseconds;

struct Change {
  Phase phase;
  LeaderEvent event;
  Phase next;
  const char* actions;
};

// Every cell that does anything; all others must leave everything as it is.
const std::vector<Change>& changes() {
  static const std::vector<Change> list{
      {Phase::kLoading, LeaderEvent::kLoaded, Phase::kStarting, "start_replicas"},
      {Phase::kLoading,
       LeaderEvent::kLoadFailed,
       Phase::kStopping,
       "drop_loader keep_cause stop_replicas"},
      {Phase::kLoading, LeaderEvent::kHangUp, Phase::kLoading, "ignore_signal"},
      {Phase::kLoading, LeaderEvent::kEnd, Phase::kStopping, "drop_loader stop_replicas"},
      {Phase::kLoading, LeaderEvent::kPromptsDone, Phase::kStopping, "drop_loader stop_replicas"},

      {Phase::kStarting, LeaderEvent::kReplicaReady, Phase::kServing, "-"},
      {Phase::kStarting,
       LeaderEvent::kReplicaFailed,
       Phase::kStopping,
       "keep_cause fail_open stop_replicas"},
      {Phase::kStarting,
       LeaderEvent::kAllFailed,
       Phase::kStopping,
       "keep_cause fail_open stop_replicas"},
      {Phase::kStarting, LeaderEvent::kHangUp, Phase::kStarting, "ignore_signal"},
      {Phase::kStarting, LeaderEvent::kEnd, Phase::kStopping, "stop_replicas"},
      {Phase::kStarting, LeaderEvent::kPromptsDone, Phase::kStopping, "stop_replicas"},

      {Phase::kServing,
       LeaderEvent::kAllFailed,
       Phase::kStopping,
       "keep_cause fail_open stop_replicas"},
      {Phase::kServing, LeaderEvent::kHangUp, Phase::kRolling, "roll"},
      {Phase::kServing, LeaderEvent::kEnd, Phase::kDraining, "drain"},
      {Phase::kServing, LeaderEvent::kPromptsDone, Phase::kStopping, "stop_replicas"},

      {Phase::kRolling,
       LeaderEvent::kAllFailed,
       Phase::kStopping,
       "drop_roll keep_cause fail_open stop_replicas"},
      {Phase::kRolling, LeaderEvent::kRolled, Phase::kServing, "-"},
      {Phase::kRolling, LeaderEvent::kHangUp, Phase::kRolling, "roll"},
      {Phase::kRolling, LeaderEvent::kEnd, Phase::kDraining, "drop_roll drain"},
      {Phase::kRolling, LeaderEvent::kPromptsDone, Phase::kStopping, "drop_roll stop_replicas"},

      {Phase::kDraining,
       LeaderEvent::kAllFailed,
       Phase::kStopping,
       "keep_cause fail_open stop_replicas"},
      {Phase::kDraining, LeaderEvent::kHangUp, Phase::kDraining, "ignore_signal"},
      {Phase::kDraining, LeaderEvent::kEndRepeated, Phase::kDraining, "ignore_signal"},
      {Phase::kDraining, LeaderEvent::kEndInsisted, Phase::kStopping, "kill_replicas"},
      {Phase::kDraining, LeaderEvent::kDrained, Phase::kStopping, "stop_replicas"},
      {Phase::kDraining, LeaderEvent::kPromptsDone, Phase::kStopping, "stop_replicas"},

      {Phase::kStopping, LeaderEvent::kHangUp, Phase::kStopping, "ignore_signal"},
      {Phase::kStopping, LeaderEvent::kEnd, Phase::kStopping, "ignore_signal"},
      {Phase::kStopping, LeaderEvent::kEndRepeated, Phase::kStopping, "ignore_signal"},
      {Phase::kStopping, LeaderEvent::kEndInsisted, Phase::kStopping, "kill_replicas"},
      {Phase::kStopping, LeaderEvent::kGone, Phase::kStopping, "finish"},
  };
  return list;
}

class PhaseCell : public ::testing::TestWithParam<std::tuple<std::size_t, std::size_t>> {};

TEST_P(PhaseCell, IsAsWrittenDown) {
  const std::size_t phase = std::get<0>(GetParam());
  const std::size_t event = std::get<1>(GetParam());
  const PhaseStep step = phase_table()[phase][event];
  const auto found = std::find_if(changes().begin(), changes().end(), [&](const Change& change) {
    return static_cast<std::size_t>(change.phase) == phase &&
           static_cast<std::size_t>(change.event) == event;
  });
  const bool changes_something = found != changes().end();
  EXPECT_EQ(step.next, changes_something ? found->next : static_cast<Phase>(phase));
  EXPECT_EQ(leader_actions_to_string(step.actions), changes_something ? found->actions : "-");
}

INSTANTIATE_TEST_SUITE_P(
    Life,
    PhaseCell,
    ::testing::Combine(::testing::Range(std::size_t{0}, kPhaseCount),
                       ::testing::Range(std::size_t{0}, kLeaderEventCount)),
    [](const ::testing::TestParamInfo<PhaseCell::ParamType>& cell) {
      return std::string(to_string(static_cast<Phase>(std::get<0>(cell.param)))) + "_" +
             std::string(to_string(static_cast<LeaderEvent>(std::get<1>(cell.param))));
    });

TEST(PhaseTable, OnlyTheEndOfAllReplicasEndsTheLeader) {
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
    for (std::size_t event = 0; event < kLeaderEventCount; ++event) {
      const bool finishes = (phase_table()[phase][event].actions & kFinish) != 0;
      EXPECT_EQ(finishes,
                static_cast<Phase>(phase) == Phase::kStopping &&
                    static_cast<LeaderEvent>(event) == LeaderEvent::kGone);
    }
  }
}

TEST(EndSignals, CountASecondOneOnlyAfterASecond) {
  test::ManualClock clock;
  EndSignals signals;
  EXPECT_EQ(signals.event_of(SIGHUP, clock.now()), LeaderEvent::kHangUp);
  EXPECT_EQ(signals.event_of(SIGTERM, clock.now()), LeaderEvent::kEnd);
  clock.advance(milliseconds(1));
  EXPECT_EQ(signals.event_of(SIGTERM, clock.now()), LeaderEvent::kEndRepeated);
  EXPECT_EQ(signals.event_of(SIGINT, clock.now()), LeaderEvent::kEndRepeated);
  clock.advance(milliseconds(998));
  EXPECT_EQ(signals.event_of(SIGTERM, clock.now()), LeaderEvent::kEndRepeated);
  clock.advance(milliseconds(1));
  EXPECT_EQ(signals.event_of(SIGINT, clock.now()), LeaderEvent::kEndInsisted);
  EXPECT_EQ(signals.event_of(SIGHUP, clock.now()), LeaderEvent::kHangUp);
}

TEST(LeaderLife, FinishesATransitionBeforeTheNextBegins) {
  std::vector<std::string> done;
  LeaderLife* self = nullptr;
  LeaderLife life([&](LeaderAction action, const Error* cause) {
    done.push_back(leader_actions_to_string(static_cast<std::uint16_t>(action)) +
                   (cause != nullptr ? ": " + cause->message() : ""));
    if (action == kRoll) {
      self->post(LeaderEvent::kRolled);
      self->post(LeaderEvent::kAllFailed, unavailable("none is left"));
      EXPECT_EQ(self->phase(), Phase::kRolling);
    }
  });
  self = &life;
  life.post(LeaderEvent::kLoaded);
  life.post(LeaderEvent::kReplicaReady);
  EXPECT_EQ(life.phase(), Phase::kServing);
  life.post(LeaderEvent::kHangUp);
  EXPECT_EQ(life.phase(), Phase::kStopping);
  EXPECT_EQ(done,
            (std::vector<std::string>{"start_replicas",
                                      "roll",
                                      "keep_cause: none is left",
                                      "fail_open: none is left",
                                      "stop_replicas: none is left"}));
}

}  // namespace
}  // namespace phalanx::fleet
