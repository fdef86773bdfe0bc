// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/replica_engine.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/wire/error_text.h"
#include "phalanx/wire/limits.h"

namespace phalanx::engine {
namespace {

// Choices whose highest attempt is remembered after their sequence has ended. A Submit that comes
// a second time comes soon.
constexpr std::size_t kRememberedChoices = 8192;
constexpr std::size_t kForgetScan = 8;  // looked at for each new one

wire::TokenUpdate final_update(const wire::SequenceKey& key, step::FinishReason reason) {
  wire::TokenUpdate update;
  update.key = key;
  update.finish = reason;
  return update;
}

wire::TokenUpdate final_error(const wire::SequenceKey& key, const Error& error) {
  wire::TokenUpdate update = final_update(key, step::FinishReason::kError);
  update.error_code = wire::error_code(error);
  update.error_message = wire::error_text(error.message());
  return update;
}

}  // namespace

ReplicaEngine::ReplicaEngine(const ReplicaOptions& options,
                             GroupPort& port,
                             ResultSource& results,
                             KvMemory& kv,
                             ReplicaSink& sink,
                             WakeUp& wake_up,
                             const Clock& clock)
    : options_(options),
      results_(results),
      sink_(sink),
      wake_up_(wake_up),
      clock_(clock),
      scheduler_(options.scheduler),
      kv_(kv, scheduler_, clock),
      digest_(options.scheduler.limits.max_num_seqs),
      group_(options.group, port, *this, clock),
      samples_(options.scheduler.limits.max_num_seqs),
      budget_(options.max_step, options.row_reads) {}

ReplicaEngine::~ReplicaEngine() = default;

void ReplicaEngine::start() {
  group_.start();
}

// ---- the leader's messages

void ReplicaEngine::handle(const wire::LeaderMessage& message) {
  struct Visitor {
    ReplicaEngine& engine;
    void operator()(const wire::Submit& submit) const { engine.submit(submit); }
    void operator()(const wire::Cancel& cancel) const { engine.cancel(cancel); }
    void operator()(const wire::StopReplica& stop) const { engine.stop(stop); }
  };
  std::visit(Visitor{*this}, message);
}

void ReplicaEngine::submit(const wire::Submit& submit) {
  ++effects_;
  if (!admit_attempt(submit.key)) {
    return;
  }
  if (stopping_ || failure_) {
    refuse(submit.key, unavailable("the replica is stopping"));
    return;
  }
  const Result<SequenceId> id = scheduler_.submit(submit);
  if (!id) {
    refuse(submit.key, id.error());
    return;
  }
  log_.began(submit, clock_.now());
  pump();
}

void ReplicaEngine::refuse_submit(const wire::SequenceKey& key, const Error& error) {
  ++effects_;
  if (admit_attempt(key)) {
    refuse(key, error);
  }
}

// The attempt that it was to replace leaves at the next boundary of steps, which may be now.
void ReplicaEngine::refuse(const wire::SequenceKey& key, const Error& error) {
  log_.refused(key, error);
  publish_one(final_error(key, error));
  pump();
}

// Does this Submit begin something? Also ends the attempt that it replaces.
bool ReplicaEngine::admit_attempt(const wire::SequenceKey& key) {
  const Choice choice{key.request, key.choice};
  const auto seen = attempts_.find(choice);
  if (seen == attempts_.end()) {
    remember(choice, key.attempt);
    return true;
  }
  if (key.attempt == seen->second) {
    return false;
  }
  if (key.attempt < seen->second) {
    publish_one(final_update(key, step::FinishReason::kCancelled));
    return false;
  }
  static_cast<void>(scheduler_.cancel({key.request, key.choice, seen->second}));
  seen->second = key.attempt;
  return true;
}

void ReplicaEngine::remember(const Choice& choice, Attempt attempt) {
  attempts_.emplace(choice, attempt);
  attempt_order_.push_back(choice);
  // A choice that is still here is not forgotten; it goes round once more.
  for (std::size_t i = 0; attempts_.size() > kRememberedChoices && i < kForgetScan; ++i) {
    const Choice oldest = attempt_order_.front();
    attempt_order_.pop_front();
    if (scheduler_.contains({oldest.first, oldest.second, attempts_.at(oldest)})) {
      attempt_order_.push_back(oldest);
    } else {
      attempts_.erase(oldest);
    }
  }
}

void ReplicaEngine::cancel(const wire::Cancel& cancel) {
  ++effects_;
  if (scheduler_.cancel(cancel.key)) {
    pump();
  } else {
    publish_one(final_update(cancel.key, step::FinishReason::kCancelled));
  }
}

void ReplicaEngine::stop(const wire::StopReplica& stop) {
  stopping_ = true;
  const SteadyTime deadline =
      clock_.now() +
      (stop.drain ? std::chrono::milliseconds(stop.deadline_ms) : std::chrono::milliseconds(0));
  stop_deadline_ = stop_deadline_ ? std::min(*stop_deadline_, deadline) : deadline;
  if (!stop.drain) {
    stop_now();
  }
  pump();
}

void ReplicaEngine::stop_now() {
  forget_plans();
  std::vector<wire::TokenUpdate> failed = scheduler_.fail_all(unavailable("the replica stops"));
  // What computes no sequence any more was sent ahead of the last token, and is one step of
  // decoding.
  const bool is_needless = failed.empty();
  publish(group_.last_step(), std::move(failed));
  end_group(is_needless);
}

void ReplicaEngine::end_group(bool after_step) {
  if (!std::exchange(group_stopping_, true)) {
    group_.stop(after_step);
  }
}

// ---- events of the ranks

void ReplicaEngine::on_reply(RankId rank, const wire::RankReply& reply) {
  group_.on_reply(rank, reply);
}

void ReplicaEngine::on_death(RankId rank, const RankDeath& death) {
  group_.on_death(rank, death);
}

void ReplicaEngine::on_lifeline_free(RankId rank) {
  group_.on_lifeline_free(rank);
}

void ReplicaEngine::on_stopped_by_signal(RankId rank) {
  group_.on_stopped_by_signal(rank);
}

void ReplicaEngine::on_writable(RankId rank) {
  group_.on_writable(rank);
}

void ReplicaEngine::on_tick(std::uint32_t periods) {
  group_.on_tick(periods);
  if (stop_deadline_ && !group_stopping_ && clock_.now() >= *stop_deadline_) {
    stop_now();
  }
  if (kv_.on_tick(group_.forming() || plan_ || !sink_.takes(),
                  bisection_.active() ? &bisection_.testing() : nullptr,
                  [this](wire::TokenUpdate starved) { publish_one(std::move(starved)); })) {
    pump();
  }
  periods_since_status_ += periods;
  if (periods_since_status_ >= options_.status_periods && sink_.takes()) {
    send_status();
    send_holding();
  }
}

std::uint32_t ReplicaEngine::tick_periods() const {
  const bool idle = group_.ready() && scheduler_.running() == 0 && scheduler_.waiting() == 0 &&
                    !stopping_ && !kv_.takes_ahead();
  return idle ? options_.idle_periods : 1;
}

// ---- the group's questions and news

GroupClient::Attachment ReplicaEngine::attachment(bool kv_lost) {
  if (kv_lost) {
    forget_plans();
    kv_.forget();
    publish(group_.last_step(), scheduler_.drop_kv());
  }
  Attachment attachment;
  attachment.table = scheduler_.attach_table();
  digest_.clear();
  for (const step::SequenceAttach& sequence : attachment.table) {
    digest_.attach(sequence);
  }
  attachment.hash = digest_.hash({});
  return attachment;
}

wire::RankCommand ReplicaEngine::self_test() {
  const Scheduler::Probe probe = scheduler_.probe();
  wire::RankCommand command;
  step::SequenceAttach sequence;
  sequence.slot = probe.slot;
  sequence.sequence = probe.sequence.value();
  sequence.tokens = {0};
  sequence.prompt_tokens = 1;
  sequence.sampling.temperature = 0.0F;
  command.attach.push_back(std::move(sequence));
  step::StepItem item;
  item.slot = probe.slot;
  item.sequence = probe.sequence.value();
  item.count = 1;
  item.sample = true;
  item.blocks = {probe.block.value()};
  command.items.push_back(std::move(item));
  return command;
}

Result<std::uint64_t> ReplicaEngine::take_results(const wire::RankCommand& command) {
  for (const std::uint32_t slot : command.detach) {
    digest_.detach(slot);
  }
  for (const step::SequenceAttach& sequence : command.attach) {
    digest_.attach(sequence);
  }
  for (std::uint32_t i = 0; i < command.items.size(); ++i) {
    const step::StepItem& item = command.items[i];
    digest_.extend(item.slot, item.blocks);
    if (!item.sample) {
      continue;
    }
    const std::optional<step::SampleResult> sample = results_.read(command.step, i);
    if (!sample || sample->sequence != item.sequence) {
      return data_loss("the ring holds no result for sequence " + std::to_string(item.sequence));
    }
    samples_[i] = *sample;
    const TokenId token = step::table_token(*sample);
    if (token < 0 || static_cast<std::uint32_t>(token) >= options_.scheduler.vocab_size) {
      return data_loss("token " + std::to_string(sample->token) + " was sampled for sequence " +
                       std::to_string(item.sequence) + "; the vocabulary has " +
                       std::to_string(options_.scheduler.vocab_size));
    }
    digest_.append(item.slot, token);
  }
  return digest_.hash(command.items);
}

void ReplicaEngine::on_ready(Epoch epoch) {
  const BlockPool& blocks = scheduler_.blocks();
  sink_.send(wire::ReplicaReady{
      epoch, group_.numerics_fingerprint(), blocks.total(), options_.memory_bytes});
  send_prefix_changes();
  send_status();
  pump();
}

void ReplicaEngine::on_idle() {
  pump();
}

void ReplicaEngine::on_fault(const StepFault& fault) {
  ahead_.reset();
  last_error_ = wire::error_text(fault.combined().message());
  send_status();
}

void ReplicaEngine::on_failed(const Error& error) {
  forget_plans();
  sink_.send(wire::ReplicaFailed{wire::error_code(error), wire::error_text(error.message())});
  failure_ = error;
}

void ReplicaEngine::on_stopped() {
  sink_.on_stopped(failure_ ? Status(*failure_) : ok());
}

}  // namespace phalanx::engine
