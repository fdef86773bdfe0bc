// SPDX-License-Identifier: Apache-2.0
#include "support/rank_cluster.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <gtest/gtest.h>

#include "phalanx/base/hash.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/wire/codec.h"

namespace phalanx::testing {

RankCluster::Slot::Slot(const ClusterOptions& options)
    : memory(options.kv_blocks),
      rows(step::result_ring_rows(options.max_num_seqs)),
      ring(std::make_unique<engine::ResultRing>(rows, options.max_num_seqs)) {}

RankCluster::RankCluster(const ClusterOptions& options,
                         FaultyTransport& transport,
                         const VirtualTime& time)
    : options_(options), transport_(transport), time_(time), random_(mix64(options.seed)) {
  slots_.reserve(options.ranks);
  for (std::uint32_t i = 0; i < options.ranks; ++i) {
    slots_.emplace_back(options);
  }
}

RankCluster::~RankCluster() = default;

std::uint64_t RankCluster::draw(std::uint64_t below) {
  random_ = mix64(random_ + 0x9E3779B97F4A7C15ULL);
  return below == 0 ? 0 : random_ % below;
}

void RankCluster::after(Millis delay, std::function<void()> run) {
  events_.push_back({time_.millis() + delay, std::move(run)});
}

void RankCluster::run_events() {
  std::vector<Event> due;
  const auto split = std::stable_partition(
      events_.begin(), events_.end(), [&](const Event& e) { return e.at > time_.millis(); });
  std::move(split, events_.end(), std::back_inserter(due));
  events_.erase(split, events_.end());
  std::stable_sort(
      due.begin(), due.end(), [](const Event& a, const Event& b) { return a.at < b.at; });
  for (const Event& event : due) {
    event.run();
  }
}

void RankCluster::advance() {
  run_events();
  deliver();
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    work(RankId(i));
  }
}

void RankCluster::deliver() {
  for (FaultyTransport::Delivery& frame : transport_.due(time_.millis())) {
    Slot& to = slot(frame.rank);
    if (frame.incarnation != to.incarnation) {
      continue;  // the link of an incarnation dies with it
    }
    if (frame.direction == Direction::kToRank) {
      if (to.process) {
        to.process->inbox.push_back(std::move(frame.bytes));
      }
      continue;
    }
    const Result<wire::RankReply> reply = wire::decode_rank_reply(frame.bytes);
    ASSERT_TRUE(reply) << reply.error().to_string();
    listener_->on_reply(frame.rank, *reply);
  }
}

// ---- what a rank does with its millisecond

bool RankCluster::is_collective(wire::RankOp op) {
  return op == wire::RankOp::kInit || op == wire::RankOp::kSanity || op == wire::RankOp::kStep;
}

void RankCluster::work(RankId rank) {
  Slot& own = slot(rank);
  if (!own.process || own.frozen) {
    return;
  }
  Process& process = *own.process;
  if (!process.announced && time_.millis() >= process.connected_at) {
    process.announced = true;
    listener_->on_writable(rank);
    if (own.process.get() != &process) {
      return;
    }
  }
  if (!process.command) {
    take_command(rank);
  }
  if (!process.command) {
    return;
  }
  if (is_collective(process.command->op) && aborted_.contains(process.command->epoch) &&
      process.epoch == process.command->epoch) {
    finish(rank, aborted("the group gave up"));
  } else if (process.finish_at) {
    ++own.progress;
    if (time_.millis() >= *process.finish_at) {
      finish(rank, ok());
    }
  }
}

void RankCluster::take_command(RankId rank) {
  Process& process = *slot(rank).process;
  if (process.inbox.empty()) {
    return;
  }
  Result<wire::RankCommand> command = wire::decode_rank_command(process.inbox.front());
  process.inbox.pop_front();
  ASSERT_TRUE(command) << command.error().to_string();
  if (command->op == wire::RankOp::kHello) {
    process.epoch = std::max(process.epoch, command->epoch);
  }
  // One of another epoch, or seen before, is refused by the loop; nobody is waited for.
  const std::tuple identity{command->epoch, command->step, command->op};
  const bool waits = is_collective(command->op) && command->epoch == process.epoch &&
                     process.last_taken < identity;
  process.last_taken = std::max(process.last_taken, identity);
  process.command = std::move(*command);
  if (waits) {
    meet(*process.command);
  } else {
    process.finish_at = time_.millis() + 1;
  }
}

// The last to come frees the others.
void RankCluster::meet(const wire::RankCommand& command) {
  const auto here = [&](const Slot& other) {
    return other.process && other.process->command &&
           other.process->command->epoch == command.epoch &&
           other.process->command->step == command.step && other.process->command->op == command.op;
  };
  if (!std::all_of(slots_.begin(), slots_.end(), here)) {
    return;
  }
  std::uint32_t rows = 0;
  for (const step::StepItem& item : command.items) {
    rows += item.count;
  }
  const Millis row_work = options_.rows_per_milli == 0 ? 0 : rows / options_.rows_per_milli;
  for (Slot& other : slots_) {
    other.process->finish_at =
        time_.millis() + options_.work + row_work +
        static_cast<Millis>(draw(static_cast<std::uint64_t>(options_.jitter) + 1));
  }
}

void RankCluster::finish(RankId rank, Status outcome) {
  Slot& own = slot(rank);
  Process& process = *own.process;
  if (outcome && deadly_ && rank == RankId(0) && process.command->op == wire::RankOp::kStep &&
      std::any_of(process.command->items.begin(), process.command->items.end(), deadly_)) {
    if (poison_starves_) {
      starve(rank);
    } else {
      crash(rank, SIGSEGV, DeathOrigin::kOwn);
    }
    return;
  }
  wire::RankCommand command = *std::exchange(process.command, std::nullopt);
  process.finish_at.reset();
  misplace_block(own, &command);
  const bool was_aborted = !outcome;
  if (own.failure && own.failure->first == command.op) {
    process.runner.let_next(std::exchange(own.failure, std::nullopt)->second);
  } else {
    process.runner.let_next(std::move(outcome),
                            was_aborted ? static_cast<std::uint32_t>(draw(3)) : 0xFFFFFFFF);
  }
  const wire::RankReply reply = process.loop.handle(command);
  process.runner.let_next(ok());
  ++replies_[command.op];
  if (was_aborted) {
    abort_answered_ = time_.millis() - aborted_.at(command.epoch);
  }
  static_cast<void>(transport_.send(
      {Direction::kToReplica, rank, own.incarnation, wire::encode(reply), 0}, time_.millis()));
  if (process.loop.finished()) {
    perish(rank, engine::RankDeath{false, 0, "exited with status 0", DeathOrigin::kOwn});
  }
}

void RankCluster::misplace_block(Slot& own, wire::RankCommand* command) const {
  for (step::StepItem& item : command->items) {
    if (own.misplaces_block && !item.blocks.empty()) {
      own.misplaces_block = false;
      item.blocks.back() = (item.blocks.back() + 1) % options_.kv_blocks;
    }
  }
}

// ---- deaths

void RankCluster::crash(RankId rank, int signal, DeathOrigin origin) {
  Slot& own = slot(rank);
  if (!own.process) {
    return;
  }
  Process& process = *own.process;
  if (process.command && process.command->op == wire::RankOp::kStep && process.finish_at) {
    // It dies somewhere in the step: some rows are written, or all and the reply is lost.
    process.runner.let_next(aborted("dying"), static_cast<std::uint32_t>(draw(4)));
    static_cast<void>(process.loop.handle(*process.command));
  }
  if (!engine::kv_survives(engine::RankDeath{true, signal, {}, origin})) {
    corrupt_memory(rank);
  }
  transport_.cut(rank, own.incarnation, draw(2) == 0);
  perish(rank,
         engine::RankDeath{true, signal, "killed by signal " + std::to_string(signal), origin});
}

void RankCluster::exit(RankId rank, int status) {
  perish(rank,
         engine::RankDeath{
             false, status, "exited with status " + std::to_string(status), DeathOrigin::kOwn});
}

void RankCluster::starve(RankId rank) {
  engine::RankDeath death{false, 75, "exited with status 75", DeathOrigin::kOwn};
  death.lacked_resources = true;
  perish(rank, std::move(death));
}

void RankCluster::perish(RankId rank, engine::RankDeath death) {
  Slot& own = slot(rank);
  if (!own.process) {
    return;
  }
  own.process.reset();
  own.frozen = false;
  if (std::exchange(own.stopped, false)) {
    death.origin = DeathOrigin::kStopped;
  }
  const Incarnation dead = own.incarnation;
  if (lifelines_) {
    after(1, [this, rank, dead] {
      if (slot(rank).incarnation == dead) {
        listener_->on_lifeline_free(rank);
      }
    });
  }
  after(options_.reap, [this, rank, death = std::move(death)] {
    slot(rank).gone = true;
    listener_->on_death(rank, death);
  });
}

void RankCluster::fail_next(RankId rank, wire::RankOp op, Error error) {
  slot(rank).failure.emplace(op, std::move(error));
}

void RankCluster::corrupt_memory(RankId rank) {
  const std::uint64_t noise = mix64(++corruptions_);  // no two ranks go wrong alike
  for (std::uint64_t& cell : slot(rank).memory.cells) {
    cell ^= noise;
  }
}

bool RankCluster::executing(RankId rank, wire::RankOp op) const {
  const Slot& own = slots_[rank.value()];
  return own.process && own.process->command && own.process->command->op == op;
}

bool RankCluster::executing(RankId rank, StepId step) const {
  return executing(rank, wire::RankOp::kStep) &&
         slots_[rank.value()].process->command->step == step;
}

std::uint32_t RankCluster::live_ranks() const {
  return static_cast<std::uint32_t>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.gone; }));
}

std::uint64_t RankCluster::count(wire::RankOp op) const {
  const auto found = replies_.find(op);
  return found == replies_.end() ? 0 : found->second;
}

// ---- what the group asks for

wire::Sent RankCluster::send(RankId rank, std::string_view frame) {
  Slot& to = slot(rank);
  if (to.process && time_.millis() < to.process->connected_at) {
    return wire::Sent::kWouldBlock;
  }
  return transport_.send({Direction::kToRank, rank, to.incarnation, frame, 0}, time_.millis());
}

void RankCluster::raise_abort() {
  ++aborts_;
  if (segment_.value() != 0) {
    aborted_.emplace(segment_, time_.millis());
  }
}

void RankCluster::kill(RankId rank) {
  ++kills_;
  crash(rank, SIGKILL);
}

Status RankCluster::respawn(RankId rank, Incarnation incarnation) {
  Slot& own = slot(rank);
  EXPECT_EQ(own.process, nullptr) << "a second process in slot " << rank.value();
  EXPECT_TRUE(own.gone) << "the memory of slot " << rank.value() << " still has an owner";
  EXPECT_EQ(incarnation.value(), own.incarnation.value() + 1);
  if (respawn_error_) {
    return *respawn_error_;
  }
  ++spawns_;
  own.incarnation = incarnation;
  own.gone = false;
  own.failure.reset();
  const engine::RankLoopOptions loop{
      rank, static_cast<std::int32_t>(1000 + spawns_), options_.secret};
  const step::RankLimits limits{options_.max_model_len,
                                options_.max_num_seqs,
                                options_.max_num_batched_tokens,
                                options_.kv_blocks};
  own.process = std::make_unique<Process>(loop, limits, own.memory, *own.ring, options_.vocab_size);
  own.process->runner.identity_value = own.identity;
  own.process->connected_at = time_.millis() + options_.connect;
  if (starving_ != 0) {
    --starving_;
    after(1, [this, rank] { starve(rank); });
  }
  return ok();
}

Status RankCluster::new_segment(Epoch epoch) {
  EXPECT_GT(epoch, segment_) << "a communicator was used twice";
  if (segment_error_) {
    return *std::exchange(segment_error_, std::nullopt);
  }
  segment_ = epoch;
  return ok();
}

std::uint64_t RankCluster::progress(RankId rank) {
  return slot(rank).progress;
}

}  // namespace phalanx::testing
