// SPDX-License-Identifier: Apache-2.0
// What a replica does about steps that end the processes that run them.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/engine/replica_engine.h"
#include "phalanx/obs/log.h"
#include "phalanx/wire/error_text.h"

namespace phalanx::engine {
namespace {

// Tokens computed beyond where somebody died. What ends its process does so where it did before.
constexpr std::uint32_t kForgivenAfter = 64;

}  // namespace

void ReplicaEngine::on_blamed(const Error& cause) {
  if (!plan_) {
    return;
  }
  const std::optional<StepPlan> plan = std::exchange(plan_, std::nullopt);
  std::vector<SequenceId> together;
  for (const PlannedRow& row : plan->rows) {
    if (scheduler_.contains(row.sequence)) {
      together.push_back(row.sequence);
      blamed_at_[row.sequence] = row.start + row.count;
    }
  }
  obs::log_warn("step_blamed", {{"sequences", together.size()}, {"cause", cause.to_string()}});
  if (together.empty()) {
    group_.charge();  // it was computed for sequences that have ended: nobody can be looked for
    return;
  }
  const bool and_others = together.size() < plan->rows.size();
  const std::optional<SequenceId> culprit = bisection_.blame(together, and_others);
  if (!culprit) {
    return;
  }
  const wire::SequenceKey key = scheduler_.key_of(*culprit);
  obs::log_error("request_condemned", {{"sequence", text_of(key)}});
  std::vector<wire::TokenUpdate> updates;
  updates.push_back(scheduler_.fail(
      *culprit,
      Error(Code::kPoisoned,
            wire::error_text(
                "this request ended the process that computed it twice while it ran alone; "
                "it is not tried again. The last time: " +
                cause.message()))));
  publish(group_.last_step(), std::move(updates));
}

// While a culprit is looked for only the suspects under test run.
std::optional<StepPlan> ReplicaEngine::next_plan() {
  if (bisection_.knows_any()) {
    bisection_.keep([&](SequenceId id) { return scheduler_.contains(id); });
    std::erase_if(blamed_at_, [&](const auto& entry) { return !scheduler_.contains(entry.first); });
  } else {
    blamed_at_.clear();
  }
  return kv_.plan(bisection_.active() ? &bisection_.testing() : nullptr, budget_);
}

// Who has computed what it was computing when somebody died, is not what ended it; after a good
// deal more neither is it what ended somebody before.
void ReplicaEngine::acquit(const StepPlan& plan) {
  if (!bisection_.knows_any()) {
    return;
  }
  for (const PlannedRow& row : plan.rows) {
    const auto blamed = blamed_at_.find(row.sequence);
    if (blamed == blamed_at_.end() || row.start + row.count < blamed->second) {
      continue;
    }
    bisection_.progressed(row.sequence);
    if (row.start + row.count >= blamed->second + kForgivenAfter) {
      bisection_.forgive(row.sequence);
      blamed_at_.erase(blamed);
    }
  }
  if (bisection_.take_unexplained()) {
    group_.charge();
  }
}

}  // namespace phalanx::engine
