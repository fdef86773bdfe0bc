// SPDX-License-Identifier: Apache-2.0
// When a replica begins a step, and what it does with the plan of one that has ended.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/engine/replica_engine.h"
#include "phalanx/obs/log.h"
#include "phalanx/step/item.h"

namespace phalanx::engine {
namespace {

// How long before the expected end of a step the next one is sent: what a thread waits for a core at
// worst where all are busy, and some for the error of the expectation.
constexpr auto kAhead = std::chrono::milliseconds(8);

}  // namespace

// The one place that begins a step.
void ReplicaEngine::pump() {
  if (group_stopping_) {
    return;
  }
  if (!sink_.takes()) {
    return;  // what is computed meanwhile would only wait
  }
  if (plan_) {
    run_ahead();
    return;
  }
  publish(group_.last_step(), scheduler_.sweep());
  while (group_.ready()) {
    std::optional<StepPlan> plan = next_plan();
    if (!plan || !plan->changes_anything()) {
      break;
    }
    if (!plan->needs_step()) {
      publish(group_.last_step(), scheduler_.confirm(*plan, {}));
      continue;
    }
    begin_step(*std::move(plan));
    return;
  }
  if (stopping_ && scheduler_.empty()) {
    end_group(true);
  }
}

void ReplicaEngine::begin_step(StepPlan plan) {
  step_started_ = clock_.now();
  step_epoch_ = group_.epoch();
  for (const PlannedRow& row : plan.rows) {
    if (row.admit) {
      log_.admitted(scheduler_.key_of(row.sequence), step_started_);
    }
  }
  plan_ = std::move(plan);
  scheduler_.begin(*plan_);
  group_.run(scheduler_.command(*plan_));
  run_ahead();
}

// Work that arrives before can still take part in the next step, so it is not sent sooner than it
// has to be. While a culprit is looked for, every step is judged before the next one.
void ReplicaEngine::run_ahead() {
  if (ahead_ || bisection_.active() || !group_.takes_ahead()) {
    return;
  }
  const Duration left = step_started_ + budget_.expected(plan_->work) - clock_.now();
  if (left > kAhead) {
    wake_up_.wake_after(left - kAhead);
    return;
  }
  std::optional<StepPlan> next = kv_.plan_after(*plan_);
  if (next) {
    ahead_ = std::move(next);
    scheduler_.begin(*ahead_);
    group_.run_ahead(scheduler_.command(*ahead_));
  }
}

void ReplicaEngine::on_wake() {
  pump();
}

void ReplicaEngine::on_step(const wire::RankCommand& command, const CollectiveStep& step) {
  if (plan_) {
    const StepPlan plan = *std::exchange(plan_, std::exchange(ahead_, std::nullopt));
    measure(plan, command, step.identity().epoch);
    step_started_ = clock_.now();
    step_epoch_ = step.identity().epoch;
    std::vector<wire::TokenUpdate> updates = scheduler_.confirm(plan, samples_);
    // First: who asks again upon his last token is routed by them.
    send_prefix_changes();
    publish(command.step, std::move(updates));
    acquit(plan);
  }
  pump();
}

void ReplicaEngine::measure(const StepPlan& plan, const wire::RankCommand& command, Epoch epoch) {
  const Duration took = clock_.now() - step_started_;
  if (obs::log_enabled(obs::LogLevel::kTrace)) {
    obs::log_trace("step",
                   {{"step", command.step.value()},
                    {"epoch", epoch.value()},
                    {"rows", plan.rows.size()},
                    {"tokens", plan.tokens},
                    {"prefill", plan.work.prefill_rows},
                    {"admitted", command.attach.size()},
                    {"preempted", plan.preempted.size()},
                    {"waiting", scheduler_.waiting()},
                    {"blocks_free", scheduler_.blocks().free()},
                    {"ms", to_milliseconds(took)},
                    {"expected_ms", to_milliseconds(budget_.expected(plan.work))}});
  }
  if (epoch == step_epoch_) {  // else it took a recovery as well
    budget_.confirmed(plan.work, took);
  }
}

bool ReplicaEngine::revise(wire::RankCommand* command) {
  PHALANX_CHECK(plan_ && plan_->rows.size() == command->items.size(), "the step in flight");
  const auto ended = [&](std::uint64_t sequence) {
    return !scheduler_.contains(SequenceId(sequence));
  };
  std::erase_if(plan_->rows, [&](const PlannedRow& row) { return ended(row.sequence.value()); });
  std::erase_if(command->items, [&](const step::StepItem& item) { return ended(item.sequence); });
  if (plan_->rows.empty()) {
    plan_.reset();
  }
  step_started_ = clock_.now();  // but not its epoch: a step that was begun twice teaches no time
  return plan_.has_value();
}

void ReplicaEngine::forget_plans() {
  plan_.reset();
  ahead_.reset();
}

}  // namespace phalanx::engine
