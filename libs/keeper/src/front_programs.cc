// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/front_programs.h"

#include <utility>

namespace phalanx::keeper {

FrontPrograms::FrontPrograms(os::HeldProgram first) : proven_(std::move(first)) {}

std::optional<std::size_t> FrontPrograms::offer(os::HeldProgram program) {
  const std::optional<std::size_t> running = trial();
  const std::optional<std::size_t> slot = trial_ ? trial_->slot : std::nullopt;
  trial_ = Trial{std::move(program), slot, false, {}};
  return running;
}

const os::HeldProgram& FrontPrograms::start(std::size_t slot, SteadyTime now) {
  if (!trial_ || trial_->slot.value_or(slot) != slot) {
    return proven_;
  }
  trial_->slot = slot;
  trial_->is_running = true;
  trial_->since = now;
  return trial_->program;
}

void FrontPrograms::on_ready(std::size_t slot) {
  if (trial() == slot) {
    proven_ = std::move(trial_->program);
    trial_.reset();
  }
}

std::optional<std::string> FrontPrograms::on_failed(std::size_t slot) {
  if (trial() != slot) {
    return std::nullopt;
  }
  std::string path = trial_->program.path();
  trial_.reset();
  return path;
}

std::optional<std::size_t> FrontPrograms::trial() const {
  return trial_ && trial_->is_running ? trial_->slot : std::nullopt;
}

bool FrontPrograms::is_overdue(SteadyTime now) const {
  return trial() && now - trial_->since >= kTrialTime;
}

const std::string& FrontPrograms::path() const {
  return trial_ ? trial_->program.path() : proven_.path();
}

}  // namespace phalanx::keeper
