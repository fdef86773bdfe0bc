// SPDX-License-Identifier: Apache-2.0
#include "one_shot_child.h"

#include <csignal>
#include <utility>
#include <variant>

#include "phalanx/wire/error_text.h"

#include "child_end.h"

namespace phalanx::fleet {

namespace {

constexpr auto kLook = std::chrono::milliseconds(200);  // at the clock

}  // namespace

OneShotChild::OneShotChild(os::EventLoop& loop, Task task) : loop_(loop), task_(std::move(task)) {
  supervise::ChildHost& host = *this;
  runner_ = std::make_unique<supervise::PosixProcessRunner>(1, loop_, host);
  loop_.post([this] { start(); });
}

OneShotChild::~OneShotChild() = default;

void OneShotChild::start() {
  auto told = task_.bootstrap();
  if (!told) {
    finish(std::move(told).error());
    return;
  }
  bootstrap_ = *std::move(told);
  if (auto pid = runner_->spawn(0, kOnly); !pid) {
    finish(std::move(pid).error().with(task_.what));
    return;
  }
  arm();
}

// Under a wrapper it may be as slow as it is.
void OneShotChild::arm() {
  if (task_.spawn.wrapped) {
    return;
  }
  timer_ = loop_.call_every(kLook, [this, deadline = running_clock().now() + task_.patience] {
    if (running_clock().now() >= deadline) {
      end_by(deadline_exceeded(task_.late));
    }
  });
}

os::SpawnPlan OneShotChild::plan(std::size_t, Incarnation) {
  return task_.spawn;
}

Result<supervise::Bootstrap> OneShotChild::bootstrap(std::size_t, Incarnation, pid_t) {
  return bootstrap_;
}

void OneShotChild::on_record(std::size_t, Incarnation, Result<os::ControlMessage> received) {
  if (error_) {
    return;
  }
  if (!received) {
    end_by(std::move(received).error());
    return;
  }
  hear(*std::move(received));
}

void OneShotChild::hear(os::ControlMessage message) {
  auto record = wire::decode_control_record(message.bytes);
  if (!record) {
    end_by(std::move(record).error());
    return;
  }
  if (const auto* failed = std::get_if<wire::ChildFailed>(&*record)) {
    keep(wire::error_of(failed->code, failed->message));
    if (!task_.spawn.wrapped) {  // a tool may have something to say of it
      runner_->signal(0, SIGKILL);
    }
    return;
  }
  const Result<Heard> heard = task_.on_record(*std::move(record), std::move(message.fds));
  if (!heard) {
    end_by(heard.error());
  } else if (*heard == Heard::kProgress) {
    arm();
  } else {
    has_result_ = true;
  }
}

void OneShotChild::keep(Error error) {
  if (!error_) {
    error_ = std::move(error);
  }
}

// It may have no mind to end.
void OneShotChild::end_by(Error error) {
  keep(std::move(error));
  runner_->signal(0, SIGKILL);
}

void OneShotChild::on_stopped_by_signal(std::size_t, Incarnation) {
  end_by(unavailable("the " + task_.what + " was stopped by a signal"));
}

void OneShotChild::on_exit(const supervise::Death& death) {
  if (error_) {
    finish(*error_);
  } else if (!has_result_) {
    finish(end_of_child("the " + task_.what, task_.model, death));
  } else {
    finish(ok());
  }
}

void OneShotChild::finish(Status status) {
  timer_.reset();
  task_.done(std::move(status));
}

}  // namespace phalanx::fleet
