// SPDX-License-Identifier: Apache-2.0
#include "phalanx/supervise/service_machine.h"

#include <fstream>
#include <iterator>
#include <set>

#include <gtest/gtest.h>

#include "source_dir.h"

namespace phalanx::supervise {
namespace {

std::string table_as_text() {
  std::string text;
  for (std::size_t state = 0; state < kStateCount; ++state) {
    for (std::size_t event = 0; event < kEventCount; ++event) {
      const Transition transition = step(static_cast<State>(state), static_cast<Event>(event));
      text += std::string(to_string(static_cast<State>(state))) + " " +
              std::string(to_string(static_cast<Event>(event))) + " -> " +
              std::string(to_string(transition.next)) + ": " +
              actions_to_string(transition.actions) + "\n";
    }
  }
  return text;
}

template <typename Visit>
void for_each_cell(const Visit& visit) {
  for (std::size_t state = 0; state < kStateCount; ++state) {
    for (std::size_t event = 0; event < kEventCount; ++event) {
      visit(static_cast<State>(state),
            static_cast<Event>(event),
            step(static_cast<State>(state), static_cast<Event>(event)));
    }
  }
}

// The table is the contract of supervision; a change of it is a change of the golden file.
TEST(ServiceMachine, EqualsTheGoldenTable) {
  std::ifstream file(PHALANX_SOURCE_DIR "/tests/unit/supervise/service_machine.golden");
  const std::string golden{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(table_as_text(), golden);
}

TEST(ServiceMachine, SpawnsOnlyWhereNoProcessIs) {
  for_each_cell([](State state, Event event, Transition transition) {
    if ((transition.actions & kSpawn) != 0) {
      EXPECT_FALSE(has_process(state)) << to_string(state) << " " << to_string(event);
      EXPECT_EQ(transition.next, State::kStarting);
    }
  });
}

TEST(ServiceMachine, LosesItsProcessOnlyByADeathOrAFailedSpawn) {
  for_each_cell([](State state, Event event, Transition transition) {
    if (has_process(state) && !has_process(transition.next)) {
      const std::set<Event> ends{
          Event::kDied, Event::kDiedForGood, Event::kSpawnFailed, Event::kSpawnRefused};
      EXPECT_TRUE(ends.count(event) > 0) << to_string(state) << " " << to_string(event);
    }
  });
}

TEST(ServiceMachine, TellsOfEveryLossOfReadiness) {
  for_each_cell([](State state, Event event, Transition transition) {
    const bool lost = state == State::kReady && transition.next != State::kReady;
    EXPECT_EQ((transition.actions & kReportDown) != 0, lost)
        << to_string(state) << " " << to_string(event);
    const bool won = state != State::kReady && transition.next == State::kReady;
    EXPECT_EQ((transition.actions & kReportReady) != 0, won)
        << to_string(state) << " " << to_string(event);
  });
}

TEST(ServiceMachine, LeavesFailureOnlyByAnOperator) {
  for_each_cell([](State state, Event event, Transition transition) {
    if (state == State::kFailed && transition.next != State::kFailed) {
      EXPECT_TRUE(event == Event::kStart || event == Event::kResume || event == Event::kStop);
    }
  });
}

TEST(ServiceMachine, RecordsEveryDeathOfAProcess) {
  for_each_cell([](State state, Event event, Transition transition) {
    const bool death = event == Event::kDied || event == Event::kDiedForGood;
    EXPECT_EQ((transition.actions & kTellDeath) != 0, death && has_process(state))
        << to_string(state) << " " << to_string(event);
  });
}

TEST(ServiceMachine, LeavesBackoffForASpawnOnlyWhenItIsOver) {
  for_each_cell([](State state, Event event, Transition transition) {
    if (state == State::kBackoff && (transition.actions & kSpawn) != 0) {
      EXPECT_EQ(event, Event::kBackoffOver);
    }
  });
}

TEST(ServiceMachine, NamesActionsInTheOrderTheyArePerformed) {
  EXPECT_EQ(actions_to_string(kSpawn | kForgive), "forgive spawn");
  EXPECT_EQ(actions_to_string(kNothing), "-");
}

}  // namespace
}  // namespace phalanx::supervise
