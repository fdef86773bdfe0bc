// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/quarantine.h"

#include <algorithm>
#include <utility>

#include "phalanx/obs/log.h"

namespace phalanx::keeper {

namespace {

constexpr const char* kNotTried =
    "the request may have ended a process that worked for it, and could not be tried again alone";

}  // namespace

Quarantine::Quarantine(const Clock& clock, Calls calls) : clock_(clock), calls_(std::move(calls)) {}

void Quarantine::add(FrontConnection suspect) {
  if (closed_ || waiting_.size() >= kMaxWaiting) {
    return refuse(std::move(suspect));
  }
  waiting_.push_back({std::move(suspect), clock_.now()});
  if (!std::exchange(wanted_, true)) {
    calls_.restart();
  }
}

void Quarantine::refuse(FrontConnection suspect) {
  obs::log_warn("suspect_not_tried", {{"connection", suspect.id}, {"waiting", waiting_.size()}});
  if (suspect.failure.empty()) {
    suspect.failure = kNotTried;
  }
  suspect.is_suspect = false;
  calls_.refuse(std::move(suspect));
}

void Quarantine::close() {
  closed_ = true;
  for (Waiting& one : std::exchange(waiting_, {})) {
    refuse(std::move(one.suspect));
  }
}

void Quarantine::on_ready() {
  if (waiting_.empty()) {
    return end_life();
  }
  const FrontConnection suspect = std::move(waiting_.front().suspect);
  waiting_.pop_front();
  serves_ = true;
  serves_since_ = clock_.now();
  obs::log_info("suspect_alone", {{"connection", suspect.id}, {"strikes", suspect.strikes}});
  calls_.give(suspect);
}

bool Quarantine::on_gone() {
  serves_ = false;
  return std::exchange(relieved_, false);
}

void Quarantine::on_left() {
  serves_ = false;
  end_life();
}

void Quarantine::end_life() {
  wanted_ = !waiting_.empty();
  wanted_ ? calls_.restart() : calls_.stop();
}

void Quarantine::on_tick() {
  const SteadyTime now = clock_.now();
  while (!waiting_.empty() && now - waiting_.front().since >= kWaitTime) {
    FrontConnection suspect = std::move(waiting_.front().suspect);
    waiting_.pop_front();
    refuse(std::move(suspect));
  }
  if (serves_ && !relieved_ && !waiting_.empty() && now - serves_since_ >= kAloneTime) {
    relieved_ = true;
    calls_.restart();
  }
}

// A life that was begun for nobody else ends when its front is ready.
void Quarantine::drop_waiting(const std::set<std::uint64_t>& connections) {
  std::erase_if(waiting_, [&](const Waiting& one) { return connections.contains(one.suspect.id); });
}

std::vector<std::uint64_t> Quarantine::waiting() const {
  std::vector<std::uint64_t> ids;
  for (const Waiting& one : waiting_) {
    ids.push_back(one.suspect.id);
  }
  return ids;
}

}  // namespace phalanx::keeper
