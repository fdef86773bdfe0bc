// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/scheduler.h"

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/step/prefix_hash.h"
#include "phalanx/wire/error_text.h"

#include "step_planner.h"
#include "submit_check.h"

namespace phalanx::engine {
namespace {

Error row_fault(Code code) {
  return code == Code::kDataLoss
             ? data_loss("the model gives logits that are not finite: its weights may be damaged")
             : Error(code, "these sampling parameters make logits infinite or leave no token");
}

std::uint32_t size32(const auto& container) {
  return static_cast<std::uint32_t>(container.size());
}

std::vector<std::uint32_t> numbers_of(const std::vector<BlockId>& blocks) {
  std::vector<std::uint32_t> numbers(blocks.size());
  std::transform(
      blocks.begin(), blocks.end(), numbers.begin(), [](BlockId block) { return block.value(); });
  return numbers;
}

// Each choice of a request comes with the prompt, which is kept once. `other`: a choice that is
// here, or null.
std::shared_ptr<const PromptBlocks> prompt_blocks(const wire::Submit& submit,
                                                  const SchedulerOptions& options,
                                                  const Sequence* other) {
  const std::size_t full = submit.prompt_ids.size() / step::kBlockTokens * step::kBlockTokens;
  const auto tokens = std::span(submit.prompt_ids).first(full);
  if (other != nullptr && other->cache_salt == submit.cache_salt &&
      std::ranges::equal(tokens, other->tokens.beginning()->tokens)) {
    return other->tokens.beginning();
  }
  PromptBlocks blocks;
  blocks.tokens.assign(tokens.begin(), tokens.end());
  if (options.prefix_cache) {
    step::extend_prefix_hashes(options.prefix_key, submit.cache_salt, blocks.tokens, blocks.hashes);
  }
  return std::make_shared<const PromptBlocks>(std::move(blocks));
}

SequenceTokens tokens_of(const wire::Submit& submit,
                         const SchedulerOptions& options,
                         const Sequence* other) {
  std::shared_ptr<const PromptBlocks> beginning = prompt_blocks(submit, options, other);
  const auto behind = static_cast<std::ptrdiff_t>(beginning->tokens.size());
  std::vector<TokenId> rest(submit.prompt_ids.begin() + behind, submit.prompt_ids.end());
  rest.insert(rest.end(), submit.produced_ids.begin(), submit.produced_ids.end());
  SequenceTokens tokens(std::move(rest), std::move(beginning));
  if (options.prefix_cache) {
    tokens.hash_blocks(options.prefix_key, submit.cache_salt);
  }
  return tokens;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), blocks_(options.limits.kv_blocks) {
  for (std::uint32_t slot = 0; slot < options.limits.max_num_seqs; ++slot) {
    free_slots_.insert(slot);
  }
}

Result<SequenceId> Scheduler::submit(const wire::Submit& submit) {
  PHALANX_CHECK(!contains(submit.key), "the key is here already");
  PHALANX_RETURN_IF_ERROR(check_submit(options_, submit));
  if (waiting_.size() >= options_.max_waiting) {
    return resource_exhausted("the queue holds " + std::to_string(waiting_.size()) +
                              " waiting sequences, its limit");
  }
  Sequence sequence;
  sequence.id = SequenceId(next_sequence_++);
  sequence.key = submit.key;
  const auto choice = keys_.lower_bound({submit.key.request, {}, {}});
  const bool has_others = choice != keys_.end() && choice->first.request == submit.key.request;
  sequence.tokens = tokens_of(submit, options_, has_others ? &at(choice->second) : nullptr);
  sequence.prompt_tokens = size32(submit.prompt_ids);
  sequence.submitted_tokens = sequence.length();
  sequence.token_limit = token_limit(options_, submit);
  sequence.cache_salt = submit.cache_salt;
  sequence.sampling = submit.sampling;
  sequence.stop = submit.stop;
  if (sequence.to_generate() == 0 || stops_at_end(sequence)) {
    leaving_.push_back(sequence.id);
  }
  ++room_changes_;
  const SequenceId id = sequence.id;
  keys_.emplace(submit.key, id);
  waiting_.emplace(id, std::move(sequence));
  return id;
}

bool Scheduler::stops_at_end(const Sequence& sequence) {
  const auto& stops = sequence.stop.stop_token_ids;
  return sequence.produced() > 0 &&
         std::find(stops.begin(), stops.end(), sequence.tokens.back()) != stops.end();
}

bool Scheduler::cancel(const wire::SequenceKey& key) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) {
    return false;
  }
  Sequence& sequence = at(found->second);
  if (!sequence.cancelled) {
    sequence.cancelled = true;
    leaving_.push_back(sequence.id);
  }
  return true;
}

std::vector<wire::SequenceKey> Scheduler::keys_after(const wire::SequenceKey& after,
                                                     std::size_t limit) const {
  std::vector<wire::SequenceKey> result;
  for (auto key = keys_.upper_bound(after); key != keys_.end() && result.size() < limit; ++key) {
    if (!at(key->second).cancelled) {
      result.push_back(key->first);
    }
  }
  return result;
}

std::vector<wire::TokenUpdate> Scheduler::sweep() {
  std::vector<wire::TokenUpdate> updates;
  for (const SequenceId id : std::exchange(leaving_, {})) {
    if (!contains(id)) {
      continue;  // it has finished since, or was cancelled twice over
    }
    const Sequence& sequence = at(id);
    step::FinishReason reason = step::FinishReason::kCancelled;
    if (!sequence.cancelled) {
      reason = stops_at_end(sequence) ? step::FinishReason::kStop : step::FinishReason::kLength;
    }
    updates.push_back(remove(id, reason));
  }
  return updates;
}

StepPlan Scheduler::plan(const std::set<SequenceId>* only, const StepBudget* budget) const {
  StepPlan plan =
      StepPlanner(
          options_, blocks_, cache_, running_, waiting_, free_slots_, only, budget, in_order_)
          .run();
  plan.room_changes = room_changes_;
  plan.freed.assign(stale_slots_.begin(), stale_slots_.end());
  return plan;
}

wire::RankCommand Scheduler::command(const StepPlan& plan) const {
  wire::RankCommand command;
  command.op = wire::RankOp::kStep;
  command.detach = plan.freed;
  for (const SequenceId id : plan.preempted) {
    command.detach.push_back(*at(id).slot);
  }
  for (const PlannedRow& row : plan.rows) {
    const Sequence& sequence = at(row.sequence);
    if (row.admit) {
      command.attach.push_back(attach_record(sequence, row.slot, row.cached));
    }
    step::StepItem item;
    item.slot = row.slot;
    item.sequence = row.sequence.value();
    item.start = row.start;
    item.count = row.count;
    item.sample = row.sample;
    item.held_blocks = row.held_blocks;
    item.blocks = numbers_of(row.new_blocks);
    command.items.push_back(std::move(item));
  }
  return command;
}

step::SequenceAttach Scheduler::attach_record(const Sequence& sequence,
                                              std::uint32_t slot,
                                              const std::vector<BlockId>& blocks) {
  step::SequenceAttach record;
  record.slot = slot;
  record.sequence = sequence.id.value();
  record.tokens = sequence.tokens.all();
  record.prompt_tokens = sequence.prompt_tokens;
  record.choice = sequence.key.choice.value();
  record.sampling = sequence.sampling;
  record.masked_until_min_tokens = sequence.stop.stop_token_ids;
  record.blocks = numbers_of(blocks);
  return record;
}

std::vector<wire::TokenUpdate> Scheduler::confirm(const StepPlan& plan,
                                                  std::span<const step::SampleResult> samples) {
  PHALANX_CHECK(samples.size() >= plan.rows.size(), "a result for each row");
  std::vector<wire::TokenUpdate> updates;
  updates.reserve(plan.rows.size() + plan.preempted.size());
  if (plan.needs_step()) {
    for (const std::uint32_t slot : plan.freed) {
      stale_slots_.erase(slot);
    }
  }
  // What is shared before what is new, rows before victims: the numbers of the new blocks were
  // chosen so.
  for (const PlannedRow& row : plan.rows) {
    for (const BlockId block : row.cached) {
      blocks_.share(block);
    }
  }
  for (const PlannedRow& row : plan.rows) {
    PHALANX_CHECK(contains(row.sequence) || !row.admit, "only a running sequence can have ended");
    if (contains(row.sequence)) {
      apply_row(row);
    }
  }
  count_passes(plan);
  in_order_ = plan.work.prefill_rows > 0 ? plan.favours : in_order_;
  for (const SequenceId id : plan.preempted) {
    const std::uint32_t slot = *at(id).slot;
    to_waiting(id);
    if (plan.needs_step()) {
      stale_slots_.erase(slot);  // the step itself has told the ranks
    }
    ++preemptions_;
    updates.push_back(remainders(at(id)));
  }
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const SequenceId id = plan.rows[i].sequence;
    if (contains(id) && !at(id).cancelled) {
      updates.push_back(settle_row(plan.rows[i], samples[i]));
    }
  }
  for (wire::TokenUpdate& update : sweep()) {
    updates.push_back(std::move(update));
  }
  return updates;
}

// Who was overtaken by an admission is entitled to his turn sooner.
void Scheduler::count_passes(const StepPlan& plan) {
  for (const PlannedRow& row : plan.rows) {
    if (!row.admit) {
      continue;
    }
    for (auto it = waiting_.begin(); it != waiting_.end() && it->first < row.sequence; ++it) {
      ++it->second.passed;
    }
  }
}

wire::TokenUpdate Scheduler::settle_row(const PlannedRow& row, const step::SampleResult& sample) {
  Sequence& sequence = at(row.sequence);
  if (!row.sample) {
    return remainders(sequence);
  }
  if (sample.fault != 0) {
    return fail(row.sequence, row_fault(static_cast<Code>(sample.fault)));
  }
  const std::uint32_t position = sequence.produced();
  const std::int32_t top_logprobs = sequence.sampling.top_logprobs;
  sequence.tokens.push_back(sample.token);
  wire::TokenUpdate update;
  if (stops_at_end(sequence)) {
    update = remove(row.sequence, step::FinishReason::kStop);
  } else if (sequence.to_generate() == 0) {
    update = remove(row.sequence, step::FinishReason::kLength);
  } else {
    update = remainders(sequence);
  }
  update.has_token = true;
  update.position = position;
  update.token = sample.token;
  if (top_logprobs >= 0) {
    const auto wanted = std::min(static_cast<std::uint32_t>(top_logprobs), sample.top_count);
    const std::size_t known = std::min<std::size_t>(wanted, std::size(sample.top));
    update.logprob = sample.logprob;
    update.top_logprobs.assign(sample.top, sample.top + known);
  }
  return update;
}

wire::TokenUpdate Scheduler::remainders(const Sequence& sequence) {
  wire::TokenUpdate update;
  update.key = sequence.key;
  update.to_compute = sequence.to_compute();
  update.to_generate = sequence.to_generate();
  update.cached_tokens = sequence.cached_tokens.value_or(0);
  return update;
}

wire::TokenUpdate Scheduler::remove(SequenceId id, step::FinishReason reason) {
  Sequence& sequence = at(id);
  release(sequence);
  wire::TokenUpdate update;
  update.key = sequence.key;
  update.finish = reason;
  update.cached_tokens = sequence.cached_tokens.value_or(0);
  ++room_changes_;
  keys_.erase(sequence.key);
  running_.erase(id);
  waiting_.erase(id);
  return update;
}

std::vector<step::SequenceAttach> Scheduler::attach_table() {
  stale_slots_.clear();
  std::vector<step::SequenceAttach> table;
  table.reserve(running_.size());
  for (const auto& [id, sequence] : running_) {
    table.push_back(attach_record(sequence, *sequence.slot, sequence.blocks));
  }
  return table;
}

std::vector<wire::TokenUpdate> Scheduler::fail_all(const Error& error) {
  std::vector<wire::TokenUpdate> updates;
  updates.reserve(keys_.size());
  while (!keys_.empty()) {
    updates.push_back(fail(keys_.begin()->second, error));
  }
  leaving_.clear();
  return updates;
}

std::uint32_t Scheduler::first_waiting_blocks() const {
  return waiting_.empty() ? 0 : step::blocks_for(waiting_.begin()->second.length());
}

std::optional<SequenceId> Scheduler::first_waiting(const std::set<SequenceId>* only) const {
  const auto first = std::ranges::find_if(waiting_, [only](const auto& entry) {
    return only == nullptr || only->contains(entry.first);
  });
  return first == waiting_.end() ? std::nullopt : std::optional(first->first);
}

wire::TokenUpdate Scheduler::fail(SequenceId id, const Error& error) {
  wire::TokenUpdate update = remove(id, step::FinishReason::kError);
  update.error_code = wire::error_code(error);
  update.error_message = wire::error_text(error.message());
  return update;
}

const Sequence* Scheduler::find(const wire::SequenceKey& key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &at(found->second);
}

Sequence& Scheduler::at(SequenceId id) {
  return const_cast<Sequence&>(std::as_const(*this).at(id));
}

const Sequence& Scheduler::at(SequenceId id) const {
  if (const auto found = running_.find(id); found != running_.end()) {
    return found->second;
  }
  const auto found = waiting_.find(id);
  PHALANX_CHECK(found != waiting_.end(), "no such sequence");
  return found->second;
}

bool operator==(const Scheduler& a, const Scheduler& b) {
  const auto fields = [](const Scheduler& s) {
    return std::tie(s.blocks_,
                    s.cache_,
                    s.running_,
                    s.waiting_,
                    s.keys_,
                    s.free_slots_,
                    s.stale_slots_,
                    s.leaving_,
                    s.next_sequence_,
                    s.room_changes_,
                    s.in_order_,
                    s.preemptions_);
  };
  return fields(a) == fields(b);
}

}  // namespace phalanx::engine
