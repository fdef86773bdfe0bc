// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/prefix_cache.h"

#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/engine/scheduler.h"
#include "phalanx/step/prefix_hash.h"

namespace phalanx::engine {
namespace {

std::vector<TokenId> numbers(std::size_t count, TokenId first = 0) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// A key of a boot, and two first blocks that have one hash under it: found by trying four thousand
// million of them, so whoever changes the hash has to look again.
constexpr std::uint64_t kKey = 7;

std::vector<TokenId> colliding(const std::vector<TokenId>& last_four) {
  std::vector<TokenId> tokens = numbers(28);
  tokens.insert(tokens.end(), last_four.begin(), last_four.end());
  return tokens;
}

std::vector<TokenId> forged() {
  return colliding({61757, 6794, 56957, 59408});
}

std::vector<TokenId> wanted() {
  return colliding({48454, 28392, 11235, 5923});
}

std::vector<std::uint64_t> hashes_of(const std::vector<TokenId>& tokens,
                                     const std::string& salt,
                                     std::uint64_t key = kKey) {
  std::vector<std::uint64_t> hashes;
  step::extend_prefix_hashes(key, salt, tokens, hashes);
  return hashes;
}

// Publishes the blocks `first`, `first` + 1, … for the full blocks of `tokens`.
void publish(PrefixCache& cache,
             const std::vector<TokenId>& tokens,
             std::uint32_t first,
             const std::string& salt = "") {
  const auto hashes = hashes_of(tokens, salt);
  std::optional<BlockId> parent;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const BlockId id(first + static_cast<std::uint32_t>(i));
    const auto own = std::span(tokens).subspan(i * step::kBlockTokens, step::kBlockTokens);
    ASSERT_TRUE(cache.publish(id, {hashes[i], parent, own, salt}));
    parent = id;
  }
}

// The longest beginning of `tokens` that is found under `hashes`.
std::vector<BlockId> match(const PrefixCache& cache,
                           const std::vector<TokenId>& tokens,
                           const std::vector<std::uint64_t>& hashes,
                           const std::string& salt = "") {
  std::vector<BlockId> blocks;
  std::optional<BlockId> parent;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const auto own = std::span(tokens).subspan(i * step::kBlockTokens, step::kBlockTokens);
    parent = cache.find({hashes[i], parent, own, salt});
    if (!parent) {
      break;
    }
    blocks.push_back(*parent);
  }
  return blocks;
}

std::size_t matched(const PrefixCache& cache,
                    const std::vector<TokenId>& tokens,
                    const std::string& salt = "") {
  return match(cache, tokens, hashes_of(tokens, salt), salt).size();
}

TEST(PrefixHashes, NameFullBlocksAndGoOnWhereTheyEnded) {
  const std::vector<TokenId> tokens = numbers(100);
  const auto whole = hashes_of(tokens, "a");
  EXPECT_EQ(whole.size(), 3U);
  std::vector<std::uint64_t> grown;
  for (std::size_t length = 0; length <= tokens.size(); ++length) {
    step::extend_prefix_hashes(kKey, "a", std::span(tokens).first(length), grown);
    EXPECT_EQ(grown.size(), length / step::kBlockTokens);
  }
  EXPECT_EQ(grown, whole);
  EXPECT_NE(hashes_of(tokens, "b")[0], whole[0]);
  EXPECT_NE(hashes_of(tokens, "b")[2], whole[2]);
  EXPECT_NE(hashes_of(numbers(100, 1), "a")[0], whole[0]);
}

// Nobody can look beforehand for beginnings of one hash.
TEST(PrefixHashes, DifferFromBootToBoot) {
  const auto whole = hashes_of(numbers(96), "a", 7);
  const auto other = hashes_of(numbers(96), "a", 8);
  EXPECT_EQ(hashes_of(numbers(96), "a", 7), whole);
  for (std::size_t block = 0; block < whole.size(); ++block) {
    EXPECT_NE(other[block], whole[block]);
  }
  EXPECT_EQ(hashes_of(forged(), "", kKey), hashes_of(wanted(), "", kKey));
  EXPECT_NE(hashes_of(forged(), "", kKey + 1), hashes_of(wanted(), "", kKey + 1));
}

TEST(PrefixHashes, AreCountedByHalves) {
  std::set<std::uint64_t> known;
  std::vector<std::uint64_t> hashes(37);
  std::iota(hashes.begin(), hashes.end(), 5U);
  const auto is_known = [&](std::size_t block) { return known.contains(hashes[block]); };
  for (std::size_t i = 0; i <= hashes.size(); ++i) {
    EXPECT_EQ(step::known_prefix(hashes.size(), is_known), i);
    if (i < hashes.size()) {
      known.insert(hashes[i]);
    }
  }
}

TEST(PrefixCache, FindsTheLongestKnownBeginning) {
  PrefixCache cache;
  publish(cache, numbers(100), 10);
  EXPECT_EQ(cache.size(), 3U);
  const std::vector<TokenId> longer = numbers(200);
  const auto blocks = match(cache, longer, hashes_of(longer, ""));
  EXPECT_EQ(blocks, (std::vector<BlockId>{BlockId(10), BlockId(11), BlockId(12)}));
  std::vector<TokenId> other = numbers(100);
  other[40] = 7;
  EXPECT_EQ(matched(cache, other), 1U);
  EXPECT_EQ(matched(cache, numbers(100), "tenant"), 0U);
}

// Whoever finds another text of the same hash gets nothing of it.
TEST(PrefixCache, ProvesEveryTokenWhateverTheHashSays) {
  PrefixCache cache;
  const std::vector<TokenId> tokens = numbers(96);
  publish(cache, tokens, 0);
  const auto hashes = hashes_of(tokens, "");
  EXPECT_TRUE(match(cache, numbers(96, 1), hashes).empty());
  EXPECT_TRUE(match(cache, tokens, hashes, "tenant").empty());
  std::vector<TokenId> last_differs = tokens;
  last_differs[95] = 0;
  EXPECT_EQ(match(cache, last_differs, hashes).size(), 2U);
  // The same block of tokens behind another beginning.
  const std::vector<std::uint64_t> forged = {hashes[1]};
  EXPECT_TRUE(match(cache, numbers(32, 32), forged).empty());
}

TEST(PrefixCache, TakesOneBlockForABeginning) {
  PrefixCache cache;
  const std::vector<TokenId> tokens = numbers(32);
  publish(cache, tokens, 0);
  EXPECT_FALSE(cache.publish(BlockId(9), {hashes_of(tokens, "")[0], {}, tokens, ""}));
  EXPECT_FALSE(cache.contains(BlockId(9)));
}

// What is lost by a collision: the second content is not kept, nor what would follow it.
TEST(PrefixCache, KeepsTheFirstContentOfAHash) {
  PrefixCache cache;
  publish(cache, forged(), 3);
  const auto hashes = hashes_of(wanted(), "");
  const std::vector<TokenId> tokens = wanted();
  ASSERT_TRUE(cache.contains(hashes[0]));
  EXPECT_FALSE(cache.publish(BlockId(9), {hashes[0], {}, tokens, ""}));
  EXPECT_FALSE(cache.contains(BlockId(9)));
  EXPECT_EQ(matched(cache, tokens), 0U);
  EXPECT_EQ(matched(cache, forged()), 1U);
  cache.evict(BlockId(3));
  publish(cache, tokens, 9);
  EXPECT_EQ(matched(cache, tokens), 1U);
}

TEST(PrefixCache, TellsTheDifferenceThatWasMade) {
  PrefixCache cache;
  EXPECT_TRUE(cache.take_changes().cleared) << "as of nothing";
  publish(cache, numbers(64), 0);
  const auto hashes = hashes_of(numbers(64), "");
  cache.evict(BlockId(1));
  PrefixCache::Changes changes = cache.take_changes();
  EXPECT_FALSE(changes.cleared);
  EXPECT_EQ(changes.published, (std::set<std::uint64_t>{hashes[0]}));
  EXPECT_TRUE(changes.evicted.empty());
  cache.evict(BlockId(0));
  publish(cache, numbers(32), 5);
  EXPECT_EQ(cache.take_changes(), PrefixCache::Changes{});
  cache.clear();
  publish(cache, numbers(32), 6);
  changes = cache.take_changes();
  EXPECT_TRUE(changes.cleared);
  EXPECT_EQ(changes.published, (std::set<std::uint64_t>{hashes[0]}));
}

TEST(PrefixCacheDeathTest, EndsTheProcessOnEvictingAParent) {
  PrefixCache cache;
  publish(cache, numbers(64), 0);
  EXPECT_DEATH(cache.evict(BlockId(0)), "after those that follow it");
}

// ---- in a scheduler

class CachingScheduler : public ::testing::Test {
 protected:
  static SchedulerOptions options(std::uint32_t blocks = 32) {
    SchedulerOptions options;
    options.limits = {512, 4, 64, blocks};
    options.max_waiting = 8;
    options.vocab_size = 1U << 16U;
    options.prefix_cache = true;
    options.prefix_key = kKey;
    return options;
  }

  static wire::SequenceKey key(std::uint64_t number) {
    return {RequestId(number), ChoiceIndex(0), Attempt(1)};
  }

  static void submit(Scheduler& scheduler,
                     std::uint64_t number,
                     std::vector<TokenId> prompt,
                     const std::string& salt = "",
                     std::uint32_t max_tokens = 1) {
    wire::Submit submit;
    submit.key = key(number);
    submit.prompt_ids = std::move(prompt);
    submit.stop.max_tokens = max_tokens;
    submit.cache_salt = salt;
    const auto id = scheduler.submit(submit);
    ASSERT_TRUE(id) << id.error().to_string();
  }

  static std::vector<wire::TokenUpdate> step(Scheduler& scheduler) {
    const StepPlan plan = scheduler.plan();
    scheduler.begin(plan);
    step::SampleResult sample;
    sample.token = 5;
    return scheduler.confirm(plan, std::vector<step::SampleResult>(plan.rows.size(), sample));
  }

  static std::uint32_t run_alone(Scheduler& scheduler, std::uint64_t number) {
    std::uint32_t cached = 0;
    while (scheduler.contains(key(number))) {
      for (const wire::TokenUpdate& update : step(scheduler)) {
        cached = update.key == key(number) ? update.cached_tokens : cached;
      }
    }
    return cached;
  }
};

TEST_F(CachingScheduler, ComputesOnlyWhatIsNotThere) {
  Scheduler scheduler(options());
  submit(scheduler, 1, numbers(100));
  EXPECT_EQ(run_alone(scheduler, 1), 0U);
  submit(scheduler, 2, numbers(100));
  const StepPlan plan = scheduler.plan();
  ASSERT_EQ(plan.rows.size(), 1U);
  EXPECT_EQ(plan.rows[0].start, 96U);
  EXPECT_EQ(plan.rows[0].count, 4U);
  EXPECT_EQ(plan.rows[0].cached.size(), 3U);
  EXPECT_EQ(scheduler.command(plan).attach[0].blocks.size(), 3U);
  EXPECT_EQ(run_alone(scheduler, 2), 96U);
  EXPECT_EQ(scheduler.prefix_tokens_asked(), 200U);
  EXPECT_EQ(scheduler.prefix_tokens_found(), 96U);
}

TEST_F(CachingScheduler, AlwaysComputesTheLastToken) {
  Scheduler scheduler(options());
  submit(scheduler, 1, numbers(64));
  run_alone(scheduler, 1);
  submit(scheduler, 2, numbers(64));
  EXPECT_EQ(scheduler.plan().rows[0].start, 32U);
}

TEST_F(CachingScheduler, SharesNothingBetweenSalts) {
  Scheduler scheduler(options());
  submit(scheduler, 1, numbers(100), "a");
  run_alone(scheduler, 1);
  submit(scheduler, 2, numbers(100), "b");
  EXPECT_EQ(run_alone(scheduler, 2), 0U);
  submit(scheduler, 3, numbers(100), "a");
  EXPECT_EQ(run_alone(scheduler, 3), 96U);
}

TEST_F(CachingScheduler, HashesWithTheKeyOfItsBoot) {
  Scheduler scheduler(options());
  SchedulerOptions next_boot = options();
  next_boot.prefix_key = kKey + 1;
  Scheduler other(next_boot);
  submit(scheduler, 1, numbers(100), "a");
  submit(other, 1, numbers(100), "a");
  EXPECT_EQ(scheduler.find(key(1))->tokens.hash(2), hashes_of(numbers(100), "a")[2]);
  EXPECT_EQ(other.find(key(1))->tokens.hash(2), hashes_of(numbers(100), "a", kKey + 1)[2]);
}

// No wrong KV is used. The prompt is computed every time, by each of those that come together too,
// until the block that was first is evicted.
TEST_F(CachingScheduler, SharesNothingOfAPromptWhoseHashAnotherOneHas) {
  Scheduler scheduler(options(16));
  std::vector<TokenId> first = forged();
  first.push_back(1);
  submit(scheduler, 1, first);
  run_alone(scheduler, 1);
  std::vector<TokenId> prompt = wanted();
  const std::vector<TokenId> rest = numbers(69);
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  submit(scheduler, 2, prompt);
  EXPECT_EQ(run_alone(scheduler, 2), 0U);
  submit(scheduler, 3, prompt);
  step(scheduler);
  submit(scheduler, 4, prompt);
  EXPECT_EQ(scheduler.plan().rows.size(), 2U) << "it waits for nobody";
  EXPECT_EQ(run_alone(scheduler, 3), 0U);
  EXPECT_EQ(run_alone(scheduler, 4), 0U);
  submit(scheduler, 5, numbers(500, 500));
  run_alone(scheduler, 5);
  submit(scheduler, 6, prompt);
  EXPECT_EQ(run_alone(scheduler, 6), 0U);
  submit(scheduler, 7, prompt);
  EXPECT_EQ(run_alone(scheduler, 7), 96U);
}

TEST_F(CachingScheduler, LetsAPromptWaitForTheOneThatComputesItsBeginning) {
  Scheduler scheduler(options());
  submit(scheduler, 1, numbers(200));
  submit(scheduler, 2, numbers(200));
  submit(scheduler, 3, numbers(40, 500));
  for (int chunk = 0; chunk < 3; ++chunk) {
    const StepPlan plan = scheduler.plan();
    for (const PlannedRow& row : plan.rows) {
      EXPECT_NE(scheduler.key_of(row.sequence), key(2)) << "it would compute what is on its way";
    }
    step(scheduler);
  }
  EXPECT_EQ(run_alone(scheduler, 2), 192U);
}

// Those are looked over with each plan: of a long queue only the first.
TEST_F(CachingScheduler, LooksPastNoMoreThan256ThatWaitForABeginning) {
  for (const std::uint64_t held_back : {256U, 257U}) {
    SchedulerOptions roomy = options(64);
    roomy.limits.max_num_batched_tokens = 1024;
    roomy.max_waiting = 400;
    Scheduler scheduler(roomy);
    submit(scheduler, 1, numbers(200));
    for (std::uint64_t i = 1; i <= held_back; ++i) {
      submit(scheduler, 1 + i, numbers(200));
    }
    submit(scheduler, 1000, numbers(40, 500));
    EXPECT_EQ(scheduler.plan().rows.size(), held_back == 256 ? 2U : 1U);
    step(scheduler);
    EXPECT_EQ(scheduler.plan().rows.size(), 4U) << "now they may begin";
  }
}

// It begins where its text leaves that of the one who computes, and not when that one is done.
TEST_F(CachingScheduler, WaitsForNoMoreThanTheBeginningThatItShares) {
  Scheduler scheduler(options());
  submit(scheduler, 1, numbers(100));
  std::vector<TokenId> forks = numbers(100);
  forks[64] = 999;
  submit(scheduler, 2, forks);
  std::vector<TokenId> differs_first = numbers(100);
  differs_first[0] = 999;
  submit(scheduler, 3, differs_first);
  step(scheduler);
  EXPECT_EQ(scheduler.find(key(1))->computed, 64U);
  const StepPlan plan = scheduler.plan();
  ASSERT_EQ(plan.rows.size(), 2U);
  EXPECT_EQ(plan.rows[0].start, 64U) << "the first one is not done";
  EXPECT_EQ(scheduler.key_of(plan.rows[1].sequence), key(2));
  EXPECT_EQ(plan.rows[1].start, 64U);
  step(scheduler);
  EXPECT_EQ(run_alone(scheduler, 3), 0U);
}

TEST_F(CachingScheduler, GivesUpTheOldestWhenASequenceNeedsTheBlocks) {
  Scheduler scheduler(options(8));
  submit(scheduler, 1, numbers(100));
  run_alone(scheduler, 1);
  submit(scheduler, 2, numbers(100, 200));
  run_alone(scheduler, 2);
  EXPECT_EQ(scheduler.blocks().kept(), 6U);
  submit(scheduler, 3, numbers(100, 400));
  run_alone(scheduler, 3);
  submit(scheduler, 4, numbers(100));
  const std::uint32_t oldest = run_alone(scheduler, 4);
  EXPECT_LT(oldest, 96U);
  submit(scheduler, 5, numbers(100, 400));
  EXPECT_EQ(run_alone(scheduler, 5), 96U);
}

// A step that has begun may have written its blocks, whatever becomes of it.
TEST_F(CachingScheduler, ForgetsWhatAFailedStepHasOverwritten) {
  Scheduler scheduler(options(4));
  submit(scheduler, 1, numbers(128));
  run_alone(scheduler, 1);
  EXPECT_EQ(scheduler.blocks().kept(), 4U);
  submit(scheduler, 2, numbers(100, 300));
  const StepPlan plan = scheduler.plan();
  scheduler.begin(plan);
  EXPECT_EQ(plan, scheduler.plan());
  ASSERT_TRUE(scheduler.cancel(key(2)));
  EXPECT_EQ(scheduler.sweep().size(), 1U);
  submit(scheduler, 3, numbers(128));
  EXPECT_EQ(run_alone(scheduler, 3), 64U) << "a block of 64 tokens was written over two of them";
}

TEST_F(CachingScheduler, FindsTheKvOfAPreemptedSequenceAgain) {
  Scheduler scheduler(options(6));
  submit(scheduler, 1, numbers(60), "", 120);
  submit(scheduler, 2, numbers(60, 300), "", 100);
  while (scheduler.preemptions() == 0) {
    step(scheduler);
  }
  while (!scheduler.find(key(2))->slot) {
    step(scheduler);
  }
  EXPECT_GT(scheduler.find(key(2))->published, 0U);
  EXPECT_EQ(*scheduler.find(key(2))->cached_tokens, 0U) << "its own work is no find";
}

// The block of its last token is computed anew, and what follows it hangs on the one that is known.
TEST_F(CachingScheduler, KnowsTheAnswerToAPromptThatWasThereWhole) {
  Scheduler scheduler(options());
  submit(scheduler, 1, numbers(64));
  run_alone(scheduler, 1);
  submit(scheduler, 2, numbers(64), "", 40);
  EXPECT_EQ(run_alone(scheduler, 2), 32U);
  std::vector<TokenId> turn = numbers(64);
  turn.insert(turn.end(), 40, 5);
  submit(scheduler, 3, turn);
  EXPECT_EQ(run_alone(scheduler, 3), 96U);
  EXPECT_EQ(scheduler.blocks().free(), 32U);
  // Whoever needs all of the memory evicts each block before its parent.
  submit(scheduler, 4, numbers(480, 100), "", 32);
  EXPECT_EQ(run_alone(scheduler, 4), 0U);
  submit(scheduler, 5, numbers(480, 200), "", 32);
  EXPECT_EQ(run_alone(scheduler, 5), 0U);
  submit(scheduler, 6, numbers(480, 300), "", 32);
  EXPECT_EQ(run_alone(scheduler, 6), 0U);
}

// One block of the known text is held besides, which must not be the last one.
TEST_F(CachingScheduler, ComputesAPromptThatWasThereWholeWhereItNeedsAllBlocks) {
  Scheduler scheduler(options(4));
  submit(scheduler, 1, numbers(64));
  run_alone(scheduler, 1);
  submit(scheduler, 2, numbers(64), "", 65);
  for (int i = 0; i < 100 && scheduler.contains(key(2)); ++i) {
    step(scheduler);
  }
  EXPECT_TRUE(scheduler.empty());
  EXPECT_EQ(scheduler.preemptions(), 0U);
}

TEST_F(CachingScheduler, HoldsWhatAnAnswerHangsOn) {
  Scheduler scheduler(options(8));
  submit(scheduler, 1, numbers(64));
  run_alone(scheduler, 1);
  submit(scheduler, 2, numbers(64), "", 60);
  for (int i = 0; i < 40; ++i) {
    step(scheduler);
  }
  ASSERT_EQ(scheduler.find(key(2))->published, 3U);
  EXPECT_EQ(scheduler.blocks().free(), 8U - 5U) << "four in its table, and the known one";
  submit(scheduler, 3, numbers(90, 300), "", 1);
  run_alone(scheduler, 3);
  ASSERT_TRUE(scheduler.contains(key(2))) << "which has left it the other blocks";
  run_alone(scheduler, 2);
  std::vector<TokenId> turn = numbers(64);
  turn.insert(turn.end(), 40, 5);
  submit(scheduler, 4, turn);
  EXPECT_EQ(run_alone(scheduler, 4), 96U);
}

TEST_F(CachingScheduler, ForgetsEverythingWithTheKv) {
  Scheduler scheduler(options());
  submit(scheduler, 1, numbers(100));
  run_alone(scheduler, 1);
  EXPECT_TRUE(scheduler.drop_kv().empty());
  EXPECT_EQ(scheduler.blocks().kept(), 0U);
  submit(scheduler, 2, numbers(100));
  EXPECT_EQ(run_alone(scheduler, 2), 0U);
}

}  // namespace
}  // namespace phalanx::engine
