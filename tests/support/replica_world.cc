// SPDX-License-Identifier: Apache-2.0
#include "support/replica_world.h"

#include <algorithm>
#include <chrono>
#include <variant>

#include <gtest/gtest.h>

#include "phalanx/base/hash.h"
#include "phalanx/obs/log.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/codec.h"

namespace phalanx::testing {
namespace {

engine::ReplicaOptions replica_options(const WorldOptions& world) {
  engine::ReplicaOptions options;
  options.scheduler.limits.max_model_len = world.cluster.max_model_len;
  options.scheduler.limits.max_num_seqs = world.cluster.max_num_seqs;
  options.scheduler.limits.max_num_batched_tokens = world.cluster.max_num_batched_tokens;
  options.scheduler.limits.kv_blocks = world.cluster.kv_blocks;
  options.scheduler.max_waiting = world.max_waiting;
  options.scheduler.prefix_cache = world.prefix_cache;
  options.scheduler.vocab_size = world.cluster.vocab_size;
  options.max_step = std::chrono::milliseconds(world.max_step);
  options.group.ranks = world.cluster.ranks;
  options.group.secret = world.cluster.secret;
  options.group.restart_limit = world.restart_limit;
  options.group.ping_periods = world.ping_periods;
  options.group.patient = world.patient;
  options.group.reap_ticks = 20;
  options.group.progress.min_ticks = 5;
  options.group.progress.gap_factor = 2;
  options.group.progress.form_ticks = 6;
  options.group.progress.start_ticks = 10;
  options.group.progress.grace_ticks = 3;
  return options;
}

}  // namespace

// ---- LeaderBook

void LeaderBook::book(const wire::Submit& submit) {
  Entry& entry = entries_[submit.key];
  entry.submit = submit;
  entry.tokens = submit.produced_ids;
  entry.to_compute = submit.prompt_ids.size() + submit.produced_ids.size();
  entry.to_generate = submit.stop.max_tokens - submit.produced_ids.size();
}

void LeaderBook::send(wire::ReplicaMessage message) {
  const Status fits = wire::check(wire::ReplicaFrame{Boot(1), Incarnation(1), message});
  EXPECT_TRUE(fits) << "the leader would refuse it: " << fits.error().to_string();
  EXPECT_TRUE(failed.empty()) << "something follows the ReplicaFailed";
  if (auto* batch = std::get_if<wire::TokenBatch>(&message)) {
    for (const wire::TokenUpdate& update : batch->updates) {
      accept(update);
    }
    steps.push_back(batch->step);
  } else if (auto* is_ready = std::get_if<wire::ReplicaReady>(&message)) {
    ready.push_back(*is_ready);
  } else if (auto* status = std::get_if<wire::ReplicaStatus>(&message)) {
    statuses.push_back(std::move(*status));
  } else if (auto* failure = std::get_if<wire::ReplicaFailed>(&message)) {
    failed.push_back(std::move(*failure));
  } else if (auto* holding = std::get_if<wire::ReplicaHolding>(&message)) {
    holdings.push_back(std::move(*holding));
  } else if (auto* changes = std::get_if<wire::PrefixChanges>(&message)) {
    blocks_told += changes->published.size();
  }
}

void LeaderBook::on_stopped(const Status& status) {
  EXPECT_FALSE(stopped.has_value()) << "the replica ended twice";
  stopped = status;
}

void LeaderBook::accept(const wire::TokenUpdate& update) {
  const auto found = entries_.find(update.key);
  ASSERT_NE(found, entries_.end()) << "an update of a key that was never submitted";
  Entry& entry = found->second;
  ASSERT_FALSE(entry.end) << "an update after the end of request " << update.key.request.value();
  if (update.has_token) {
    ASSERT_EQ(update.position, entry.tokens.size())
        << "request " << update.key.request.value() << ": a token lost or doubled";
    std::vector<TokenId> known = entry.submit.prompt_ids;
    known.insert(known.end(), entry.tokens.begin(), entry.tokens.end());
    ASSERT_EQ(update.token,
              reference_token(
                  known, entry.submit.sampling.seed, entry.submit.key.choice.value(), vocab_size_))
        << "request " << update.key.request.value() << ": a wrong token at " << update.position;
    entry.tokens.push_back(update.token);
  }
  entry.to_compute = update.to_compute;
  entry.to_generate = update.to_generate;
  if (update.finish != step::FinishReason::kNone) {
    EXPECT_EQ(update.to_compute + update.to_generate, 0U) << "an end leaves nothing to do";
    entry.end = update;
    entry.blocks_told = blocks_told;
  }
}

std::size_t LeaderBook::open_count() const {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const auto& entry) { return !entry.second.end; }));
}

// ---- ReplicaWorld

ReplicaWorld::ReplicaWorld(const WorldOptions& options)
    : cluster(options.cluster, transport, time),
      book(options.cluster.vocab_size),
      wake_up(time),
      engine(replica_options(options), cluster, cluster.ring(RankId(0)), kv, book, wake_up, time),
      vocab_size_(options.cluster.vocab_size) {
  obs::set_log_level(obs::LogLevel::kError);  // faults are the daily bread of these tests
  cluster.listen(*this);
}

wire::Submit ReplicaWorld::request(std::uint64_t number,
                                   std::uint32_t prompt,
                                   std::uint32_t max_tokens) const {
  wire::Submit submit;
  submit.key = {RequestId(number), ChoiceIndex(0), Attempt(1)};
  for (std::uint32_t i = 0; i < prompt; ++i) {
    submit.prompt_ids.push_back(static_cast<TokenId>(mix64(number * 1000 + i) % vocab_size_));
  }
  submit.sampling.seed = mix64(number);
  submit.stop.max_tokens = max_tokens;
  return submit;
}

void ReplicaWorld::submit(const wire::Submit& submit) {
  book.book(submit);
  engine.submit(submit);
  hasten_tick();
}

void ReplicaWorld::cancel(const wire::SequenceKey& key) {
  book.cancel(key);
  engine.cancel(wire::Cancel{key});
  hasten_tick();
}

// As the program around the engine does after every message of the leader.
void ReplicaWorld::hasten_tick() {
  const std::uint32_t periods = engine.tick_periods();
  if (time.millis() + periods * tick_period < armed_at_ + armed_ * tick_period) {
    armed_ = periods;
    armed_at_ = time.millis();
  }
}

void ReplicaWorld::pass(Millis millis) {
  for (Millis i = 0; i < millis; ++i) {
    time.pass();
    cluster.advance();
    if (wake_up.take()) {
      engine.on_wake();
    }
    if (tick && time.millis() >= armed_at_ + armed_ * tick_period) {
      engine.on_tick(armed_);
      armed_ = engine.tick_periods();
      armed_at_ = time.millis();
    }
  }
}

bool ReplicaWorld::run_until(const std::function<bool()>& condition, Millis limit) {
  for (Millis i = 0; i < limit && !condition(); ++i) {
    pass(1);
  }
  return condition();
}

bool ReplicaWorld::start() {
  engine.start();
  return run_until([this] { return !book.ready.empty(); });
}

bool ReplicaWorld::run_to_ends() {
  return run_until([this] { return book.open_count() == 0; });
}

void ReplicaWorld::expect_equal_ledger() const {
  for (const auto& [key, entry] : book.entries()) {
    const engine::Sequence* const sequence = engine.scheduler().find(key);
    EXPECT_EQ(entry.to_compute, sequence == nullptr ? 0 : sequence->to_compute());
    EXPECT_EQ(entry.to_generate, sequence == nullptr ? 0 : sequence->to_generate());
  }
}

void ReplicaWorld::on_reply(RankId rank, const wire::RankReply& reply) {
  engine.on_reply(rank, reply);
}

void ReplicaWorld::on_death(RankId rank, const engine::RankDeath& death) {
  engine.on_death(rank, death);
}

void ReplicaWorld::on_lifeline_free(RankId rank) {
  engine.on_lifeline_free(rank);
}

void ReplicaWorld::on_writable(RankId rank) {
  engine.on_writable(rank);
}

}  // namespace phalanx::testing
