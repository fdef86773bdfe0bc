// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/weight_loader.h"

#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <variant>

#include "phalanx/obs/log.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/error_text.h"

#include "child_end.h"
#include "placed_memory.h"

namespace phalanx::fleet {

namespace {

constexpr auto kLook = std::chrono::milliseconds(200);  // at the clock

}  // namespace

WeightLoader::WeightLoader(os::EventLoop& loop, Start start, Progress progress, Done done)
    : loop_(loop),
      start_(std::move(start)),
      progress_(std::move(progress)),
      done_(std::move(done)) {
  runner_ = std::make_unique<supervise::PosixProcessRunner>(1, loop_, *this);
  loop_.post([this] { start_loader(); });
}

WeightLoader::~WeightLoader() = default;

void WeightLoader::start_loader() {
  auto arena = os::Memfd::reserve("phalanx-weights", start_.bootstrap.arena_bytes);
  if (!arena) {
    finish(std::move(arena).error().with("weight arena"));
    return;
  }
  arena_ = *std::move(arena);
  place(arena_, "phalanx-weights", start_.nodes);
  if (auto pid = runner_->spawn(0, Incarnation(1)); !pid) {
    finish(std::move(pid).error().with("loader"));
    return;
  }
  arm();
}

// Under a wrapper it may be as slow as it is.
void WeightLoader::arm() {
  if (start_.spawn.wrapped) {
    return;
  }
  timer_ = loop_.call_every(kLook, [this, deadline = running_clock().now() + start_.patience] {
    if (running_clock().now() >= deadline) {
      reported_ =
          deadline_exceeded("loading made no progress for " + seconds_text(start_.patience));
      runner_->signal(0, SIGKILL);
    }
  });
}

os::SpawnPlan WeightLoader::plan(std::size_t, Incarnation) {
  return start_.spawn;
}

Result<supervise::Bootstrap> WeightLoader::bootstrap(std::size_t, Incarnation incarnation, pid_t) {
  wire::LoaderBootstrap record = start_.bootstrap;
  record.common.incarnation = incarnation;
  record.common.parent_pid = start_.spawn.wrapped ? 0 : ::getpid();
  supervise::Bootstrap result;
  result.record = wire::encode(wire::ControlRecord(record));
  result.fds = {start_.lifeline_pipe, arena_.fd()};
  return result;
}

void WeightLoader::on_record(std::size_t, Incarnation, Result<os::ControlMessage> received) {
  const auto record = received ? wire::decode_control_record(received->bytes) : received.error();
  if (!record) {
    reported_ = record.error();
  } else if (const auto* progress = std::get_if<wire::ChildProgress>(&*record)) {
    arm();
    progress_(progress->done, progress->total);
  } else if (const auto* ready = std::get_if<wire::ChildReady>(&*record)) {
    obs::log_info("weights_loaded", {{"bytes", arena_.size()}, {"fingerprint", ready->value}});
    filled_ = true;
  } else if (const auto* failed = std::get_if<wire::ChildFailed>(&*record)) {
    reported_ = wire::error_of(failed->code, failed->message);
  }
}

void WeightLoader::on_stopped_by_signal(std::size_t, Incarnation) {
  reported_ = unavailable("the loader was stopped by a signal");
  runner_->signal(0, SIGKILL);
}

void WeightLoader::on_exit(const supervise::Death& death) {
  if (reported_ || !filled_) {
    finish(reported_ ? *reported_ : end_of_child("the loader", start_.bootstrap.model_path, death));
    return;
  }
  if (Status sealed = arena_.seal_content(); !sealed) {
    finish(std::move(sealed).error());
    return;
  }
  finish(std::move(arena_));
}

void WeightLoader::finish(Result<os::Memfd> result) {
  timer_.reset();
  loop_.post([done = done_, shared = std::make_shared<Result<os::Memfd>>(std::move(result))] {
    done(std::move(*shared));
  });
}

}  // namespace phalanx::fleet
