// SPDX-License-Identifier: Apache-2.0
// The invariants S1 … S9 of the collective step, one test each: a whole replica engine over ranks
// that die, hang, fail and lie, and links that lose, delay, duplicate and reorder. Each test is
// also run against a library in which the protection it is about has been taken out, and must then
// fail (CMakeLists.txt beside this file).
#include <algorithm>
#include <csignal>
#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/wire/codec.h"

#include "support/replica_world.h"

namespace phalanx::testing {
namespace {

using wire::RankOp;

RankOp op_of(const Passage& passage) {
  if (passage.direction == Direction::kToRank) {
    return wire::decode_rank_command(passage.bytes)->op;
  }
  return wire::decode_rank_reply(passage.bytes)->op;
}

// A reply that is still under way when its step has failed arrives in the middle of the step that
// came after it: of the same kind, of the same rank, even of the same number.
TEST(StepInvariants, S1OldRepliesAreDroppedEvenOfTheSameKind) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  std::uint64_t delayed = 0;
  world.transport.judge_with([&](const Passage& passage) {
    Treatment treatment;
    // Of every fifth step, what rank 0 answers comes again and again during the next ones.
    if (passage.direction == Direction::kToReplica && passage.rank == kFirst &&
        op_of(passage) == RankOp::kStep && ++delayed % 5 == 0) {
      treatment.copy = 9;
    }
    return treatment;
  });
  world.submit(world.request(1, 20, 60));
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(world.engine.status().drains, 0U) << "an old reply was taken for a new one";
  EXPECT_EQ(world.book.at(world.request(1, 20, 60).key).tokens.size(), 60U);
  EXPECT_GE(world.engine.status().stale_replies, 10U);
}

// One rank answers with an error while another is still computing: the step is not over before
// both have an outcome, and nobody is asked for anything else until then.
TEST(StepInvariants, S2EveryRankYieldsExactlyOneOutcome) {
  WorldOptions options;
  options.cluster.ranks = 3;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  Millis answered_by_others = 0;
  Millis next_hello = 0;
  world.transport.judge_with([&](const Passage& passage) {
    Treatment treatment;
    if (passage.direction == Direction::kToReplica && op_of(passage) == RankOp::kStep &&
        passage.rank != kFirst && next_hello == 0) {
      treatment.delay = 30;
      answered_by_others = world.time.millis() + treatment.delay;
    }
    if (passage.direction == Direction::kToRank && op_of(passage) == RankOp::kHello &&
        next_hello == 0) {
      next_hello = world.time.millis();
    }
    return treatment;
  });
  world.cluster.fail_next(kFirst, RankOp::kStep, internal_error("a kernel failed"));
  world.submit(world.request(1, 20, 10));
  ASSERT_TRUE(world.run_to_ends());
  ASSERT_GT(next_hello, 0);
  EXPECT_GE(next_hello, answered_by_others) << "the group went on before all had answered";
  EXPECT_EQ(world.engine.status().drains, 1U);
  EXPECT_EQ(world.engine.status().stale_replies, 0U);
}

// A step that was sent behind one that fails is drained with it: nobody is asked for anything else,
// and nobody is killed, before every rank has an outcome of both.
TEST(StepInvariants, S2AStepBehindAFailedOneIsDrainedWithIt) {
  WorldOptions options;
  options.cluster.ranks = 3;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  const wire::SequenceKey key = world.request(1, 1, 1).key;
  world.submit(world.request(1, 20, 30));
  ASSERT_TRUE(world.run_until([&] { return world.book.at(key).tokens.size() == 5; }));
  Millis answered = 0;
  Millis next_hello = 0;
  StepId failed;
  world.transport.judge_with([&](const Passage& passage) {
    Treatment treatment;
    if (passage.direction == Direction::kToReplica && op_of(passage) == RankOp::kStep) {
      const wire::RankReply reply = *wire::decode_rank_reply(passage.bytes);
      if (reply.code != 0 && passage.rank == kFirst && failed == StepId()) {
        failed = reply.step;
      } else if (passage.rank == RankId(2) && reply.epoch == Epoch(1) && failed != StepId() &&
                 reply.step > failed) {
        treatment.delay = 30;
        answered = world.time.millis() + treatment.delay;
      }
    } else if (op_of(passage) == RankOp::kHello && next_hello == 0) {
      next_hello = world.time.millis();
    }
    return treatment;
  });
  world.cluster.fail_next(kFirst, RankOp::kStep, internal_error("a kernel failed"));
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(world.cluster.kills(), 1U) << "only the one that failed has to go";
  ASSERT_GT(answered, 0) << "no step was under way behind the one that failed";
  EXPECT_GE(next_hello, answered) << "the group went on before the step behind was drained";
  EXPECT_EQ(world.engine.status().drains, 1U);
}

// A rank that stands still, without dying, is found by the progress of the group, is aborted and
// killed; a machine that stood still accuses nobody.
TEST(StepInvariants, S3HangingIsJudgedByProgressAndEndsInAKill) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 40));
  ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, RankOp::kStep); }));

  // The whole machine sleeps: ranks and watcher stop and wake together.
  world.cluster.freeze(kFirst);
  world.cluster.freeze(kSecond);
  world.tick = false;
  world.pass(5000);
  world.cluster.thaw(kFirst);
  world.cluster.thaw(kSecond);
  world.tick = true;
  world.pass(100);
  EXPECT_EQ(world.cluster.kills(), 0U) << "a suspended machine is no hung rank";

  ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kSecond, RankOp::kStep); }));
  world.cluster.freeze(kSecond);
  const Millis frozen_at = world.time.millis();
  ASSERT_TRUE(world.run_until([&] { return world.cluster.kills() == 1; }, 1000))
      << "a hung rank is never found";
  // Five ticks of patience and three of grace, and the tick that was under way.
  EXPECT_LE(world.time.millis() - frozen_at, (5 + 3 + 1) * 20);
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(world.book.at(world.request(1, 20, 40).key).tokens.size(), 40U);
}

// When one rank fails, those that wait for it in a collective are freed at once and answer
// `aborted`; none of them has to be killed.
TEST(StepInvariants, S4AFailureFreesTheOthersAtOnce) {
  WorldOptions options;
  options.cluster.ranks = 4;
  ReplicaWorld world(options);
  world.cluster.hide_lifelines();
  ASSERT_TRUE(world.start());
  // Rank 2 never hears of the step, so the others wait for it; then it dies.
  world.transport.judge_with([&](const Passage& passage) {
    Treatment treatment;
    treatment.lost = passage.rank == RankId(2) && passage.incarnation.value() == 1;
    return treatment;
  });
  world.submit(world.request(1, 20, 10));
  world.pass(3);
  world.cluster.crash(RankId(2), SIGKILL);
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(world.cluster.kills(), 0U) << "a survivor had to be killed";
  ASSERT_TRUE(world.cluster.abort_answered_after());
  EXPECT_LE(*world.cluster.abort_answered_after(), 2);
  EXPECT_EQ(world.cluster.spawns(), 5U);
}

// The lifeline of a dying rank is free long before its process is gone: the survivors are freed
// then. Its memory is handed on only when it is gone, which the cluster checks at every respawn.
TEST(StepInvariants, S5ADeathFreesTheOthersBeforeTheProcessIsGone) {
  WorldOptions options;
  options.cluster.reap = 50;  // a large address space takes its time to go
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 10));
  ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, RankOp::kStep); }));
  const std::uint64_t aborts = world.cluster.aborts();
  world.cluster.crash(kSecond, SIGKILL);
  ASSERT_TRUE(world.run_until([&] { return world.cluster.aborts() > aborts; }, 10))
      << "the survivors wait for a dead rank";
  ASSERT_TRUE(world.run_to_ends());
}

// Everything that went wrong is in the error, each rank with its own, the causes before those that
// were merely freed.
TEST(StepInvariants, S6ErrorsOfAllRanksAreCombined) {
  WorldOptions options;
  options.cluster.ranks = 3;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  world.cluster.fail_next(kFirst, RankOp::kStep, internal_error("bad tile"));
  world.cluster.fail_next(RankId(2), RankOp::kStep, resource_exhausted("no scratch"));
  world.submit(world.request(1, 20, 10));
  ASSERT_TRUE(world.run_until([&] { return world.engine.status().drains == 1; }));
  const std::string error = world.engine.status().last_error;
  EXPECT_NE(error.find("rank 0: internal: bad tile"), std::string::npos) << error;
  EXPECT_NE(error.find("rank 2: resource_exhausted: no scratch"), std::string::npos) << error;
  EXPECT_EQ(error.find("rank 0: internal: "), 0U) << "the first cause comes first: " << error;
  ASSERT_TRUE(world.run_to_ends());
}

// After a fault the group is formed anew under the next epoch, with a communicator that nobody has
// used, and every rank has passed the sanity check in it before the failed step runs again, under
// its own number.
TEST(StepInvariants, S7AFaultStartsANewEpochThatIsCheckedBeforeUse) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  ASSERT_EQ(world.cluster.count(RankOp::kSanity), 2U) << "checked at the first start";
  std::vector<std::pair<Epoch, StepId>> asked;
  world.transport.judge_with([&](const Passage& passage) {
    if (passage.direction == Direction::kToRank && passage.rank == kFirst) {
      const wire::RankCommand command = *wire::decode_rank_command(passage.bytes);
      if (command.op == RankOp::kStep) {
        asked.emplace_back(command.epoch, command.step);
      }
    }
    return Treatment{};
  });
  world.submit(world.request(1, 20, 10));
  ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kSecond, RankOp::kStep); }));
  world.cluster.crash(kSecond, SIGKILL);
  world.cluster.fail_next(kFirst, RankOp::kSanity, internal_error("no scratch"));
  ASSERT_TRUE(world.run_until([&] { return world.book.ready.size() == 2; }, 2000))
      << "the group was not formed again: " << world.engine.status().last_error;
  EXPECT_EQ(world.engine.status().epoch, Epoch(3))
      << "a group was used although the check of a rank failed";
  EXPECT_EQ(world.cluster.segment(), Epoch(3));
  EXPECT_GE(world.cluster.count(RankOp::kSanity), 5U) << "checked in each epoch";
  ASSERT_TRUE(world.run_to_ends());
  const auto again = std::find_if(
      asked.begin(), asked.end(), [](const auto& step) { return step.first == Epoch(3); });
  ASSERT_NE(again, asked.end());
  EXPECT_EQ(asked[0].first, Epoch(1));
  EXPECT_EQ(again->second, asked[0].second) << "a repeated step keeps its number";
}

// A failed step has changed nothing: the scheduler is what it was at the last confirmed step, and
// the repetition gives the same KV and the same tokens, wherever in the step the rank died.
TEST(StepInvariants, S8AFailedStepChangesNothingAndItsRepetitionEverything) {
  int rolled_back = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    WorldOptions options;
    options.cluster.seed = seed;
    options.cluster.kv_blocks = 12;  // tight: preemption takes part
    ReplicaWorld world(options);
    ASSERT_TRUE(world.start());
    for (std::uint64_t i = 1; i <= 4; ++i) {
      world.submit(world.request(i, 50 + static_cast<std::uint32_t>(7 * i), 60));
    }
    for (int crash = 0; crash < 4; ++crash) {
      world.pass(static_cast<Millis>(20 + seed * 7));
      ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, RankOp::kStep); }));
      const engine::Scheduler before = world.engine.scheduler();
      const StepId confirmed = world.engine.status().last_step;
      world.pass(static_cast<Millis>(seed % 3));
      world.cluster.crash(RankId(static_cast<std::uint32_t>(seed % 2)), SIGKILL);
      ASSERT_TRUE(world.run_until([&] { return world.engine.status().recovering; }, 100));
      if (world.engine.status().last_step == confirmed) {
        EXPECT_TRUE(world.engine.scheduler() == before) << "seed " << seed;
        ++rolled_back;
      }
      world.expect_equal_ledger();
      ASSERT_TRUE(world.run_until([&] {
        return world.engine.group().ready() || world.cluster.executing(kFirst, RankOp::kStep);
      }));
    }
    ASSERT_TRUE(world.run_to_ends()) << "seed " << seed;
    for (std::uint64_t i = 1; i <= 4; ++i) {
      EXPECT_EQ(world.book.at(world.request(i, 1, 1).key).tokens.size(), 60U);
    }
  }
  EXPECT_GT(rolled_back, 20) << "the crashes missed the steps";
}

// A rank that has computed something else says so by its state, and is replaced; the client never
// sees its token.
TEST(StepInvariants, S9ADivergedRankIsAFaultAndNeverAWrongToken) {
  for (const RankId liar : {kFirst, kSecond}) {
    ReplicaWorld world({});
    ASSERT_TRUE(world.start());
    world.submit(world.request(1, 40, 30));
    ASSERT_TRUE(world.run_until(
        [&] { return world.book.at(world.request(1, 1, 1).key).tokens.size() == 5; }));
    world.cluster.corrupt_memory(liar);
    ASSERT_TRUE(world.run_to_ends());
    EXPECT_EQ(world.book.at(world.request(1, 1, 1).key).tokens.size(), 30U);
    EXPECT_GE(world.engine.status().drains, 1U);
    EXPECT_NE(world.engine.status().last_error.find("data_loss"), std::string::npos);
  }
}

// A rank whose block table differs by one entry would read the KV of somebody else. Its tokens may
// still be right; its state is not.
TEST(StepInvariants, S9ADifferentBlockTableIsAFault) {
  for (const RankId liar : {kFirst, kSecond}) {
    ReplicaWorld world({});
    ASSERT_TRUE(world.start());
    world.submit(world.request(1, 40, 60));
    ASSERT_TRUE(world.run_until(
        [&] { return world.book.at(world.request(1, 1, 1).key).tokens.size() == 5; }));
    const std::uint64_t drains = world.engine.status().drains;
    world.cluster.misplace_next_block(liar);
    ASSERT_TRUE(world.run_to_ends());
    EXPECT_EQ(world.book.at(world.request(1, 1, 1).key).tokens.size(), 60U);
    EXPECT_EQ(world.engine.status().drains, drains + 1);
    EXPECT_NE(world.engine.status().last_error.find("data_loss"), std::string::npos);
  }
}

// Ranks that have taken the blocks of a step which failed elsewhere are given the whole table of
// before it: nobody counts the blocks of the repetition twice. Every command comes twice as well.
TEST(StepInvariants, S8BlocksOfAFailedStepAreTakenOnceByEveryRank) {
  WorldOptions options;
  options.cluster.ranks = 3;
  options.restart_limit = 100;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  std::set<std::uint32_t> grown;  // by the blocks held before
  std::optional<StepId> growing;
  world.transport.judge_with([&](const Passage& passage) {
    Treatment treatment;
    if (passage.direction == Direction::kToRank && op_of(passage) == RankOp::kStep) {
      const wire::RankCommand command = *wire::decode_rank_command(passage.bytes);
      if (!command.items.empty() && !command.items[0].blocks.empty()) {
        if (grown.insert(command.items[0].held_blocks).second) {
          growing = command.step;
        }
      }
      treatment.copy = 3;
    }
    return treatment;
  });
  world.submit(world.request(1, 20, 150));
  // Of every step that brings a block, the first attempt loses a rank in its middle.
  while (world.run_until([&] { return growing || world.book.open_count() == 0; }) && growing) {
    ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kSecond, *growing); }));
    world.cluster.crash(kSecond, SIGKILL);
    growing.reset();
  }
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(world.book.at(world.request(1, 1, 1).key).tokens.size(), 150U);
  EXPECT_EQ(grown.size(), 6U) << "170 tokens take six blocks";
  EXPECT_EQ(world.engine.status().drains, 6U) << world.engine.status().last_error;
}

}  // namespace
}  // namespace phalanx::testing
