// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/model_planner.h"

#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <variant>

#include "phalanx/wire/codec.h"
#include "phalanx/wire/error_text.h"

#include "child_end.h"

namespace phalanx::fleet {

namespace {

constexpr auto kLook = std::chrono::milliseconds(200);  // at the clock

}  // namespace

ModelPlanner::ModelPlanner(os::EventLoop& loop,
                           os::SpawnPlan spawn,
                           wire::PlannerBootstrap bootstrap,
                           int lifeline_pipe,
                           Duration patience,
                           Done done)
    : loop_(loop),
      spawn_(std::move(spawn)),
      bootstrap_(std::move(bootstrap)),
      lifeline_pipe_(lifeline_pipe),
      patience_(patience),
      done_(std::move(done)) {
  runner_ = std::make_unique<supervise::PosixProcessRunner>(1, loop_, *this);
  loop_.post([this] { start(); });
}

ModelPlanner::~ModelPlanner() = default;

void ModelPlanner::start() {
  if (auto pid = runner_->spawn(0, Incarnation(1)); !pid) {
    finish(std::move(pid).error().with("planner"));
    return;
  }
  timer_ = loop_.call_every(kLook, [this, deadline = running_clock().now() + patience_] {
    if (running_clock().now() >= deadline) {
      reported_ = deadline_exceeded("the model's files were not read within " +
                                    seconds_text(patience_) + " (--start-timeout)");
      runner_->signal(0, SIGKILL);
    }
  });
}

os::SpawnPlan ModelPlanner::plan(std::size_t, Incarnation) {
  return spawn_;
}

Result<supervise::Bootstrap> ModelPlanner::bootstrap(std::size_t, Incarnation incarnation, pid_t) {
  wire::PlannerBootstrap record = bootstrap_;
  record.common.incarnation = incarnation;
  record.common.parent_pid = ::getpid();
  supervise::Bootstrap result;
  result.record = wire::encode(wire::ControlRecord(record));
  result.fds = {lifeline_pipe_};
  return result;
}

void ModelPlanner::on_record(std::size_t, Incarnation, Result<os::ControlMessage> received) {
  Status taken = received ? take(*std::move(received)) : std::move(received).error();
  if (!taken && !reported_) {
    reported_ = std::move(taken).error();
    runner_->signal(0, SIGKILL);  // it may have no mind to end
  }
}

// The memory comes from a process that has read what anybody may have written: before it is passed
// on, its size is what was said, and nobody can change it any more.
Status ModelPlanner::take(os::ControlMessage message) {
  PHALANX_TRY(wire::ControlRecord record, wire::decode_control_record(message.bytes));
  if (const auto* failed = std::get_if<wire::ChildFailed>(&record)) {
    return wire::error_of(failed->code, failed->message);
  }
  auto* const plan = std::get_if<wire::ServerPlan>(&record);
  if (plan == nullptr || made_ || message.fds.size() != 1) {
    return data_loss("the planner sent something else than one plan with one descriptor");
  }
  auto tokenizer = os::Memfd::adopt(std::move(message.fds.front()), plan->tokenizer_bytes);
  if (!tokenizer) {
    return std::move(tokenizer).error().with("the tokenizer from the planner");
  }
  if (Status sealed = tokenizer->seal_content(); !sealed) {
    return std::move(sealed).error().with("the tokenizer from the planner");
  }
  made_ = MadePlan{std::move(*plan), *std::move(tokenizer)};
  return ok();
}

void ModelPlanner::on_stopped_by_signal(std::size_t, Incarnation) {
  reported_ = unavailable("the planner was stopped by a signal");
  runner_->signal(0, SIGKILL);
}

void ModelPlanner::on_exit(const supervise::Death& death) {
  if (reported_) {
    finish(*reported_);
  } else if (!made_) {
    finish(end_of_child("the planner", bootstrap_.model_path, death));
  } else {
    finish(*std::exchange(made_, std::nullopt));
  }
}

void ModelPlanner::finish(Result<MadePlan> result) {
  timer_.reset();
  loop_.post([done = done_, shared = std::make_shared<Result<MadePlan>>(std::move(result))] {
    done(std::move(*shared));
  });
}

}  // namespace phalanx::fleet
