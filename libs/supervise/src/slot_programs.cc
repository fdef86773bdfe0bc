// SPDX-License-Identifier: Apache-2.0
#include "phalanx/supervise/slot_programs.h"

#include <utility>

namespace phalanx::supervise {

SlotPrograms::SlotPrograms(os::HeldProgram first, std::size_t slots, Duration trial_time)
    : trial_time_(trial_time), proven_{std::move(first), 0}, started_with_(slots, 0) {}

std::optional<std::size_t> SlotPrograms::offer(os::HeldProgram program) {
  const std::optional<std::size_t> running = trial();
  const std::optional<std::size_t> slot = trial_ ? trial_->slot : std::nullopt;
  trial_ = Trial{{std::move(program), ++offered_}, slot, false, {}};
  return running;
}

const os::HeldProgram& SlotPrograms::start(std::size_t slot, bool may_try, SteadyTime now) {
  if (!trial_ || !may_try || trial_->slot.value_or(slot) != slot) {
    started_with_[slot] = proven_.number;
    return proven_.held;
  }
  trial_->slot = slot;
  trial_->is_running = true;
  trial_->since = trial_->since.value_or(now);
  started_with_[slot] = trial_->program.number;
  return trial_->program.held;
}

void SlotPrograms::on_ready(std::size_t slot) {
  if (trial() == slot) {
    proven_ = std::move(trial_->program);
    trial_.reset();
  }
}

std::optional<std::string> SlotPrograms::on_failed(std::size_t slot) {
  if (trial() != slot) {
    return std::nullopt;
  }
  std::string path = trial_->program.held.path();
  trial_.reset();
  return path;
}

void SlotPrograms::on_ended(std::size_t slot) {
  if (trial() == slot) {
    trial_->slot.reset();
    trial_->is_running = false;
  }
}

bool SlotPrograms::is_outdated(std::size_t slot) const {
  return started_with_[slot] != (trial_ ? trial_->program : proven_).number;
}

std::optional<std::size_t> SlotPrograms::trial() const {
  return trial_ && trial_->is_running ? trial_->slot : std::nullopt;
}

bool SlotPrograms::is_overdue(SteadyTime now) const {
  return trial() && now - *trial_->since >= trial_time_;
}

const std::string& SlotPrograms::path() const {
  return (trial_ ? trial_->program : proven_).held.path();
}

}  // namespace phalanx::supervise
