// SPDX-License-Identifier: Apache-2.0
// A replica under everything at once, chosen by seeds: frames lost, delayed, doubled, overtaken and
// refused at every step, ranks killed, frozen, failing and lying, clients that leave. Whatever
// happens, every request ends once, with exactly its own tokens, and the ledger is a recount.
#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/base/hash.h"

#include "support/replica_world.h"
#include "support/seeds.h"

namespace phalanx::testing {
namespace {

using wire::RankOp;

class Storm {
 public:
  explicit Storm(std::uint64_t seed) : seed_(seed), random_(mix64(seed)), world_(options()) {}

  void run() {
    ASSERT_TRUE(world_.start());
    FaultRates rates;
    rates.lose = draw32(0, 8);
    rates.duplicate = draw32(0, 60);
    rates.delay = draw32(0, 200);
    rates.would_block = draw32(0, 60);
    rates.closed = draw32(0, 3);
    world_.transport.judge_with(random_faults(seed_, rates));
    for (int i = 0; i < 60 && !::testing::Test::HasFatalFailure(); ++i) {
      disturb();
      world_.pass(static_cast<Millis>(draw32(1, 60)));
      world_.expect_equal_ledger();
    }
    world_.transport.judge_with({});
    world_.kv.available = UINT32_MAX;
    let_leader_take(true);
    ASSERT_TRUE(world_.run_to_ends()) << world_.engine.status().last_error;
    EXPECT_TRUE(world_.book.failed.empty()) << world_.book.failed[0].message;
    world_.expect_equal_ledger();
    EXPECT_EQ(world_.engine.scheduler().blocks().free(),
              world_.engine.scheduler().blocks().limit());
    drains += world_.engine.status().drains;
    stale += world_.engine.status().stale_replies;
    // A last look at the group: it serves, and it leaves in peace.
    world_.submit(world_.request(++requests_, 5, 5));
    ASSERT_TRUE(world_.run_to_ends());
    world_.engine.stop(wire::StopReplica{true, 5000});
    ASSERT_TRUE(world_.run_until([&] { return world_.book.stopped.has_value(); }));
    EXPECT_TRUE(*world_.book.stopped);
    EXPECT_EQ(world_.cluster.live_ranks(), 0U);
  }

  std::uint64_t drains = 0;
  std::uint64_t stale = 0;

 private:
  WorldOptions options() {
    WorldOptions options;
    options.cluster.ranks = draw32(1, 5);
    options.cluster.seed = seed_;
    options.cluster.max_num_seqs = draw32(1, 6);
    options.cluster.max_num_batched_tokens = draw32(6, 80);
    options.cluster.kv_blocks = draw32(8, 24);
    options.cluster.reap = static_cast<Millis>(draw32(1, 40));
    options.restart_limit = 1000;
    options.ping_periods = draw32(0, 4);
    options.max_waiting = 1000;
    options.prefix_cache = draw(3) > 0;
    return options;
  }

  std::uint64_t draw(std::uint64_t below) {
    random_ = mix64(random_ + 0x9E3779B97F4A7C15ULL);
    return random_ % below;
  }
  std::uint32_t draw32(std::uint32_t from, std::uint32_t below) {
    return from + static_cast<std::uint32_t>(draw(below - from));
  }

  void disturb() {
    const auto ranks = static_cast<std::uint32_t>(world_.engine.status().ranks.size());
    const RankId rank(draw32(0, ranks));
    switch (draw(14)) {
      case 0:
        world_.cluster.crash(rank, SIGKILL);
        break;
      case 1:
        world_.cluster.crash(rank, SIGSEGV, draw(2) == 0 ? DeathOrigin::kSent : DeathOrigin::kOwn);
        break;
      case 2:
        world_.cluster.freeze(rank);
        break;
      case 3:
        world_.cluster.exit(rank, 1);
        break;
      case 4:
        world_.cluster.fail_next(rank, RankOp::kStep, internal_error("bad luck"));
        break;
      case 5:
        if (ranks > 1) {  // a rank alone has nobody to differ from
          world_.cluster.corrupt_memory(rank);
        }
        break;
      case 6:
        if (requests_ > 0) {
          leave(1 + draw(requests_));
        }
        break;
      case 7:
        world_.kv.available = draw(2) == 0 ? UINT32_MAX : world_.kv.backed + draw32(0, 4);
        break;
      case 8:
        let_leader_take(!world_.book.takes_frames);
        break;
      default:
        submit();
        break;
    }
  }

  void let_leader_take(bool takes) {
    world_.book.takes_frames = takes;
    if (takes) {
      world_.engine.on_wake();
    }
  }

  // One in three ends soon by a token that cannot be foreseen. Half of them begin as others do, and
  // have several choices.
  void submit() {
    wire::Submit submit = world_.request(++requests_, draw32(1, 120), draw32(1, 40));
    for (TokenId token = 0; draw(3) == 0 && token < 1000; token += 10) {
      submit.stop.stop_token_ids.push_back(token);
    }
    std::uint32_t choices = 1;
    if (draw(2) == 0) {
      const std::size_t length = submit.prompt_ids.size();
      submit.prompt_ids = world_.request(1000 + draw(3), 120, 1).prompt_ids;
      submit.prompt_ids.resize(length);
      choices = draw32(1, 4);
    }
    for (std::uint32_t choice = 0; choice < choices; ++choice) {
      submit.key.choice = ChoiceIndex(choice);
      world_.submit(submit);
    }
  }

  void leave(std::uint64_t number) {
    const wire::SequenceKey key = world_.request(number, 1, 1).key;
    if (world_.book.open(key)) {
      world_.cancel(key);
    }
  }

  std::uint64_t seed_;
  std::uint64_t random_;
  ReplicaWorld world_;
  std::uint64_t requests_ = 0;
};

TEST(StepStorm, NeverLosesDoublesOrMistakesAToken) {
  std::uint64_t drains = 0;
  std::uint64_t stale = 0;
  const std::uint64_t seeds = seeds_to_walk(60);
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Storm storm(seed);
    storm.run();
    drains += storm.drains;
    stale += storm.stale;
  }
  EXPECT_GT(drains, 5 * seeds) << "the storms are too mild";
  EXPECT_GT(stale, seeds) << "the storms are too mild";
}

}  // namespace
}  // namespace phalanx::testing
