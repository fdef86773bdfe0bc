// SPDX-License-Identifier: Apache-2.0
// Random walks of a scheduler over a rank whose KV is real enough to be wrong: submissions,
// cancellations, preemptions, failed steps and lost KV in any order, against a model that knows of
// each request only what was asked and what must come.
#include <chrono>
#include <limits>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "phalanx/base/hash.h"
#include "phalanx/engine/scheduler.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/wire/codec.h"

#include "support/cell_runner.h"
#include "support/seeds.h"
#include "support/table_memory.h"

namespace phalanx::engine {
namespace {

using step::FinishReason;
using testing::CellMemory;
using testing::CellRunner;
using testing::reference_token;

constexpr std::uint32_t kVocab = 50;

struct Expected {
  wire::Submit submit;
  std::vector<TokenId> tokens;
  std::uint64_t to_compute = 0;
  std::uint64_t to_generate = 0;
  bool cancelled = false;
};

class Walk {
 public:
  explicit Walk(std::uint64_t seed)
      : random_(mix64(seed)),
        options_(draw_options()),
        scheduler_(options_),
        memory_(options_.limits.kv_blocks),
        runner_(memory_, kVocab),
        table_(options_.limits, kVocab),
        budget_(std::chrono::milliseconds(draw(2) == 0 ? 0 : draw32(1, 60)), kReadsCostNothing) {}

  void run(int moves) {
    for (int i = 0; i < moves && !::testing::Test::HasFailure(); ++i) {
      const std::uint64_t move = draw(100);
      if (move < 25) {
        submit();
      } else if (move < 32) {
        cancel();
      } else if (move < 70) {
        step();
      } else if (move < 94) {
        two_steps();
      } else if (move < 99) {
        fail_step();
      } else {
        lose_kv();
      }
      check();
    }
    for (int i = 0; i < 20000 && !scheduler_.empty() && !::testing::Test::HasFailure(); ++i) {
      step();
      check();
    }
    EXPECT_TRUE(scheduler_.empty()) << "somebody is never served";
    EXPECT_TRUE(open_.empty()) << "somebody has no end";
    EXPECT_EQ(scheduler_.blocks().free(), options_.limits.kv_blocks);
  }

  [[nodiscard]] std::uint64_t preemptions() const { return scheduler_.preemptions(); }
  [[nodiscard]] std::uint64_t found() const { return scheduler_.prefix_tokens_found(); }
  [[nodiscard]] std::uint64_t shared() const { return shared_; }
  [[nodiscard]] std::uint64_t twins() const { return twins_; }
  [[nodiscard]] std::uint64_t cut() const { return cut_; }
  [[nodiscard]] std::uint64_t favours() const { return favours_; }
  [[nodiscard]] std::uint64_t ahead() const { return ahead_; }
  [[nodiscard]] std::uint64_t in_vain() const { return in_vain_; }

 private:
  std::uint64_t draw(std::uint64_t below) {
    random_ = mix64(random_ + 0x9E3779B97F4A7C15ULL);
    return random_ % below;
  }
  std::uint32_t draw32(std::uint32_t from, std::uint32_t below) {
    return from + static_cast<std::uint32_t>(draw(below - from));
  }

  SchedulerOptions draw_options() {
    SchedulerOptions options;
    options.limits.max_num_seqs = draw32(1, 8);
    options.limits.max_num_batched_tokens = options.limits.max_num_seqs + draw32(0, 80);
    options.limits.max_model_len = draw32(40, 300);
    const std::uint32_t spare = draw(2) == 0 ? draw32(0, 5) : draw32(10, 60);
    options.limits.kv_blocks = step::blocks_for(options.limits.max_model_len) + spare;
    options.max_waiting = draw32(2, 20);
    options.max_passes = draw32(1, 6);
    options.vocab_size = kVocab;
    options.prefix_cache = draw(3) != 0;
    return options;
  }

  void submit() {
    wire::Submit submit;
    submit.key = {RequestId(++requests_), ChoiceIndex(draw32(0, 3)), Attempt(1)};
    // Most begin as others do, and some of them end with a block.
    const std::uint32_t longest = options_.limits.max_model_len - 1;
    const bool whole = draw(4) == 0;
    const std::uint32_t prompt =
        whole ? draw32(1, longest / step::kBlockTokens + 1) * step::kBlockTokens
              : draw32(1, longest + 1);
    const std::uint32_t beginning = draw(4) == 0 ? 0 : draw32(prompt / 2, prompt + 1);
    const std::uint32_t alike = whole ? prompt : beginning;
    const std::uint64_t family = draw(3);
    for (std::uint32_t i = 0; i < prompt; ++i) {
      const std::uint64_t token = i < alike ? mix64(family * 1000 + i) : draw(1000);
      submit.prompt_ids.push_back(static_cast<TokenId>(token % kVocab));
    }
    submit.cache_salt = draw(4) == 0 ? "other" : "";
    submit.sampling.seed = draw(1000);
    submit.stop.max_tokens = draw32(1, 120);
    if (draw(2) == 0) {
      submit.stop.stop_token_ids = {static_cast<TokenId>(draw(kVocab))};
    }
    const std::uint32_t room =
        std::min(submit.stop.max_tokens, options_.limits.max_model_len - prompt);
    for (std::uint32_t i = 0; draw(4) == 0 && i < room; ++i) {
      submit.produced_ids.push_back(static_cast<TokenId>(draw(kVocab)));
    }
    if (!scheduler_.submit(submit)) {
      EXPECT_GE(scheduler_.waiting(), options_.max_waiting) << "refused without a reason";
      return;
    }
    Expected& expected = open_[submit.key];
    expected.submit = submit;
    expected.tokens = submit.prompt_ids;
    expected.tokens.insert(
        expected.tokens.end(), submit.produced_ids.begin(), submit.produced_ids.end());
    expected.to_compute = expected.tokens.size();
    expected.to_generate =
        std::min<std::uint64_t>(prompt + submit.stop.max_tokens, options_.limits.max_model_len) -
        expected.tokens.size();
  }

  void cancel() {
    if (open_.empty()) {
      return;
    }
    auto it = open_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(draw(open_.size())));
    EXPECT_TRUE(scheduler_.cancel(it->first));
    it->second.cancelled = true;
    settle(scheduler_.sweep());
  }

  [[nodiscard]] StepPlan planned() const { return scheduler_.plan(nullptr, &budget_); }

  // The plan knows what its rows cost, and no more prompt goes on beside decodes than may.
  void check_work(const StepPlan& plan) {
    StepWork decodes;
    StepWork prompts;
    for (const PlannedRow& row : plan.rows) {
      const Sequence* sequence = scheduler_.find(scheduler_.key_of(row.sequence));
      if (!row.admit && sequence->uncomputed() == 1) {
        decodes += StepWork::decode(row.start);
      } else {
        prompts += StepWork::prefill(row.start, row.count);
      }
    }
    StepWork both = decodes;
    both += prompts;
    EXPECT_EQ(plan.work, both);
    EXPECT_LE(prompts.prefill_rows, budget_.prefill_rows(decodes, 0));
    favours_ += plan.favours ? 1U : 0U;
    cut_ += prompts.prefill_rows == budget_.prefill_rows(decodes, 0) ? 1U : 0U;
  }

  // The next plan; what is complete or needs no ranks is settled on the way.
  StepPlan next_plan() {
    settle(scheduler_.sweep());
    StepPlan plan = planned();
    EXPECT_EQ(plan, planned()) << "planning is a function of the state";
    check_work(plan);
    return plan;
  }

  // What the ranks make of the command; empty results where they were interrupted after `rows`.
  std::vector<step::SampleResult> compute(const StepPlan& plan, std::uint32_t rows) {
    return compute(scheduler_.command(plan), plan.tokens, rows);
  }

  std::vector<step::SampleResult> compute(const wire::RankCommand& command,
                                          std::uint32_t planned_tokens,
                                          std::uint32_t rows) {
    const Status fits = wire::check(command);
    EXPECT_TRUE(fits) << "a rank would refuse it: " << fits.error().to_string();
    for (const std::uint32_t slot : command.detach) {
      EXPECT_TRUE(table_->detach(slot));
    }
    for (const step::SequenceAttach& sequence : command.attach) {
      EXPECT_TRUE(table_->attach(sequence));
    }
    EXPECT_LE(command.items.size(), options_.limits.max_num_seqs);
    std::uint32_t tokens = 0;
    for (const step::StepItem& item : command.items) {
      const Status status = table_->check(item);
      EXPECT_TRUE(status) << status.error().to_string();
      table_->extend(item);
      tokens += item.count;
    }
    EXPECT_LE(tokens, options_.limits.max_num_batched_tokens);
    EXPECT_EQ(tokens, planned_tokens);
    std::vector<step::SampleResult> results(command.items.size());
    runner_.let_next(ok(), rows);
    EXPECT_TRUE(runner_.step(*table_, command.items, results));
    for (std::size_t i = 0; i < results.size() && rows == kAll; ++i) {
      if (command.items[i].sample) {
        table_->append(command.items[i].slot, results[i].token);
      }
    }
    return results;
  }

  void step() {
    const StepPlan plan = next_plan();
    if (!plan.needs_step()) {
      settle(scheduler_.confirm(plan, {}));
      return;
    }
    scheduler_.begin(plan);
    EXPECT_EQ(plan, planned()) << "to begin changes no plan";
    const auto results = compute(plan, kAll);
    settle(scheduler_.confirm(plan, results));
    budget_.confirmed(plan.work, std::chrono::milliseconds(draw(60)));
    check_table();
  }

  // The second is sent before anything is known of the first.
  void two_steps() {
    const StepPlan plan = next_plan();
    scheduler_.begin(plan);
    const std::optional<StepPlan> next = scheduler_.plan_after(plan);
    if (!plan.needs_step() || !next) {
      const auto results = plan.needs_step() ? compute(plan, kAll) : no_results();
      settle(scheduler_.confirm(plan, results));
      return;
    }
    ++ahead_;
    scheduler_.begin(*next);
    const wire::RankCommand command = scheduler_.command(*next);
    const auto results = compute(plan, kAll);
    if (draw(3) == 0) {
      submit();
    }
    settle(scheduler_.confirm(plan, results));
    check();
    compare(*next);
    if (draw(3) == 0) {
      cancel();
    }
    if (draw(4) == 0) {
      static_cast<void>(compute(command, next->tokens, draw32(0, 4)));
      attach();  // and it is forgotten
      return;
    }
    settle(scheduler_.confirm(*next, compute(command, next->tokens, kAll)));
    check_table();
  }

  // Where nothing has come in between, it is the step that would be planned now.
  void compare(const StepPlan& ahead) {
    for (const PlannedRow& row : ahead.rows) {
      if (!scheduler_.contains(row.sequence)) {
        ++in_vain_;
        return;
      }
    }
    std::map<SequenceId, PlannedRow> expected;
    for (const PlannedRow& row : planned().rows) {
      if (!row.admit) {
        expected[row.sequence] = row;
      }
    }
    EXPECT_EQ(ahead.rows.size(), expected.size());
    for (PlannedRow row : ahead.rows) {
      PlannedRow now = expected[row.sequence];
      EXPECT_EQ(row.new_blocks.size(), now.new_blocks.size());
      now.new_blocks = row.new_blocks;
      EXPECT_EQ(row, now);
    }
  }

  static std::vector<step::SampleResult> no_results() { return {}; }

  // However many steps have grown it, the ranks' table is the one that a rank would be given now.
  void check_table() {
    Scheduler now = scheduler_;
    step::TableDigest expected(options_.limits.max_num_seqs);
    for (const step::SequenceAttach& sequence : now.attach_table()) {
      expected.attach(sequence);
    }
    for (std::uint32_t slot = 0; slot < options_.limits.max_num_seqs; ++slot) {
      if (!expected.contains(slot)) {
        EXPECT_TRUE(table_->detach(slot)) << "what the next step would do";
      }
    }
    EXPECT_EQ(table_->hash({}), expected.hash({}));
  }

  // The ranks do part of a step and fail; it is run again, whole.
  void fail_step() {
    const StepPlan plan = next_plan();
    if (!plan.needs_step()) {
      return;
    }
    scheduler_.begin(plan);
    const Scheduler before = scheduler_;
    static_cast<void>(compute(plan, draw32(0, 4)));
    EXPECT_TRUE(scheduler_ == before) << "a failed step has changed the state";
    attach();
    StepPlan again = planned();
    EXPECT_TRUE(again.freed.empty()) << "whoever has just attached knows no other slots";
    again.freed = plan.freed;
    EXPECT_EQ(plan, again);
    const auto results = compute(plan, kAll);
    settle(scheduler_.confirm(plan, results));
  }

  void lose_kv() {
    memory_.cells.assign(memory_.cells.size(), draw(1000));
    settle(scheduler_.drop_kv());
    attach();
  }

  void attach() {
    table_->clear();
    for (const step::SequenceAttach& sequence : scheduler_.attach_table()) {
      EXPECT_TRUE(table_->attach(sequence));
    }
  }

  void settle(const std::vector<wire::TokenUpdate>& updates) {
    for (const wire::TokenUpdate& update : updates) {
      const auto found = open_.find(update.key);
      ASSERT_NE(found, open_.end()) << "an update after the end";
      Expected& expected = found->second;
      const std::size_t prompt = expected.submit.prompt_ids.size();
      if (update.has_token) {
        ASSERT_EQ(update.position, expected.tokens.size() - prompt);
        ASSERT_EQ(
            update.token,
            reference_token(
                expected.tokens, expected.submit.sampling.seed, update.key.choice.value(), kVocab));
        expected.tokens.push_back(update.token);
      }
      expected.to_compute = update.to_compute;
      expected.to_generate = update.to_generate;
      if (update.finish != FinishReason::kNone) {
        check_end(expected, update);
        open_.erase(found);
      }
    }
  }

  void check_end(const Expected& expected, const wire::TokenUpdate& update) const {
    EXPECT_EQ(update.to_compute + update.to_generate, 0U);
    const auto& stops = expected.submit.stop.stop_token_ids;
    const std::size_t produced = expected.tokens.size() - expected.submit.prompt_ids.size();
    const bool stopped = produced > 0 && !stops.empty() && expected.tokens.back() == stops[0];
    const bool full = produced == expected.submit.stop.max_tokens ||
                      expected.tokens.size() == options_.limits.max_model_len;
    if (update.finish == FinishReason::kCancelled) {
      EXPECT_TRUE(expected.cancelled);
    } else {
      EXPECT_EQ(update.finish, stopped ? FinishReason::kStop : FinishReason::kLength);
      EXPECT_TRUE(stopped || full);
    }
  }

  // Every block has one owner or none, every slot too, and the ledger is a recount.
  void check() {
    std::map<BlockId, std::uint32_t> owners;
    std::set<std::uint32_t> slots;
    for (const auto& [key, expected] : open_) {
      const Sequence* sequence = scheduler_.find(key);
      ASSERT_NE(sequence, nullptr);
      EXPECT_EQ(sequence->tokens.all(), expected.tokens);
      for (const BlockId block : sequence->blocks) {
        ++owners[block];
      }
      if (sequence->twin) {
        ++owners[sequence->twin->block];
        ++twins_;
      }
      // What may still be written has one owner.
      for (std::size_t i = sequence->computed / step::kBlockTokens; i < sequence->blocks.size();
           ++i) {
        EXPECT_EQ(scheduler_.blocks().references(sequence->blocks[i]), 1U);
      }
      EXPECT_EQ(sequence->blocks.size(), step::blocks_for(sequence->computed));
      if (sequence->slot) {
        EXPECT_TRUE(slots.insert(*sequence->slot).second) << "a slot with two owners";
      }
      EXPECT_EQ(expected.to_compute, sequence->to_compute());
      EXPECT_EQ(expected.to_generate, sequence->to_generate());
    }
    for (const auto& [block, count] : owners) {
      EXPECT_EQ(scheduler_.blocks().references(block), count);
      shared_ += count > 1 ? 1U : 0U;
    }
    EXPECT_EQ(owners.size() + scheduler_.blocks().free(), options_.limits.kv_blocks)
        << "a block is lost";
    EXPECT_EQ(slots.size(), scheduler_.running());
    EXPECT_EQ(open_.size(), scheduler_.running() + scheduler_.waiting());
  }

  static constexpr std::uint32_t kAll = 0xFFFFFFFF;
  static constexpr double kReadsCostNothing = std::numeric_limits<double>::infinity();
  std::uint64_t random_;
  SchedulerOptions options_;
  Scheduler scheduler_;
  CellMemory memory_;
  CellRunner runner_;
  testing::TableMemory table_;
  StepBudget budget_;
  std::map<wire::SequenceKey, Expected> open_;
  std::uint64_t requests_ = 0;
  std::uint64_t cut_ = 0;      // steps whose prompts were cut to the time
  std::uint64_t favours_ = 0;  // steps of which a prompt had more than those before it
  std::uint64_t ahead_ = 0;    // steps that were sent before their turn …
  std::uint64_t in_vain_ = 0;  // … with rows of sequences that had ended
  std::uint64_t shared_ = 0;   // blocks with several owners, as often as one was looked at
  std::uint64_t twins_ = 0;    // blocks that are held twice over, likewise
};

TEST(SchedulerWalk, KeepsEveryBlockTokenAndRemainderExact) {
  std::uint64_t preemptions = 0;
  std::uint64_t found = 0;
  std::uint64_t shared = 0;
  std::uint64_t twins = 0;
  std::uint64_t cut = 0;
  std::uint64_t favours = 0;
  std::uint64_t ahead = 0;
  std::uint64_t in_vain = 0;
  const std::uint64_t seeds = testing::seeds_to_walk(50);
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Walk walk(seed);
    walk.run(150);
    preemptions += walk.preemptions();
    found += walk.found();
    shared += walk.shared();
    twins += walk.twins();
    cut += walk.cut();
    favours += walk.favours();
    ahead += walk.ahead();
    in_vain += walk.in_vain();
  }
  EXPECT_GT(preemptions, seeds / 2) << "the walks do not reach preemption";
  EXPECT_GT(cut, seeds) << "no step is cut to its time";
  EXPECT_GT(favours, 5 * seeds) << "no short prompt passes a long one";
  EXPECT_GT(ahead, 5 * seeds) << "no step is sent ahead";
  EXPECT_GT(in_vain, seeds / 4) << "no sequence ends behind its back";
  EXPECT_GT(found, 100 * seeds) << "nothing is found in the prefix cache";
  EXPECT_GT(shared, 10 * seeds) << "nothing is shared";
  EXPECT_GT(twins, seeds) << "nobody computes what is known";
}

}  // namespace
}  // namespace phalanx::engine
