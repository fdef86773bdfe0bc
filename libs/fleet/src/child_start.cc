// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/child_start.h"

#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <variant>

#include "phalanx/base/clock.h"
#include "phalanx/base/exception_error.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/error_text.h"

namespace phalanx::fleet {

namespace {

constexpr auto kBootstrapDeadline = std::chrono::seconds(30);
constexpr std::size_t kCommonFds = 2;

// For a parent that is late to read what came before; that it has gone is noticed by the watch.
constexpr auto kTellDeadline = std::chrono::minutes(10);

obs::LogOptions log_options_of(const wire::ChildCommon& common, std::string_view role) {
  obs::LogOptions log;
  log.level = obs::parse_log_level(common.log_level).value_or(obs::LogLevel::kInfo);
  log.role = role;
  return log;
}

}  // namespace

obs::LogOptions log_options(const wire::PlannerBootstrap& bootstrap) {
  return log_options_of(bootstrap.common, "planner");
}

obs::LogOptions log_options(const wire::LoaderBootstrap& bootstrap) {
  return log_options_of(bootstrap.common, "loader");
}

obs::LogOptions log_options(const wire::ReplicaBootstrap& bootstrap) {
  obs::LogOptions log = log_options_of(bootstrap.common, "replica");
  log.dp = static_cast<int>(bootstrap.replica.value());
  return log;
}

obs::LogOptions log_options(const wire::RankBootstrap& bootstrap) {
  obs::LogOptions log = log_options_of(bootstrap.common, "rank");
  log.dp = static_cast<int>(bootstrap.replica.value());
  log.tp = static_cast<int>(bootstrap.rank.value());
  return log;
}

obs::LogOptions log_options(const wire::FrontBootstrap& bootstrap) {
  return log_options_of(bootstrap.common, "front");
}

// Whatever logs after this must not write into the lifeline page, which is unmapped here.
ChildStart::~ChildStart() {
  obs::detach_flight();
  os::forget_crash_record();
}

Result<std::unique_ptr<ChildStart>> ChildStart::receive() {
  // A terminal or a service manager signals the whole process group; the leader alone decides what
  // that means.
  os::ignore_group_signals();
  auto start = std::make_unique<ChildStart>();
  PHALANX_RETURN_IF_ERROR(os::enter_child("phalanxd"));
  PHALANX_TRY(start->control_, os::inherited_control_socket());
  PHALANX_TRY(os::ControlMessage message,
              start->control_.receive_until(steady_clock().now() + kBootstrapDeadline));
  PHALANX_TRY(start->record_, wire::decode_control_record(message.bytes));
  start->fds_ = std::move(message.fds);
  return start;
}

Status ChildStart::follow(const wire::ChildCommon& common, obs::LogOptions log) {
  if (common.protocol != wire::kProtocolVersion) {
    return invalid_argument("protocol version: expected " + std::to_string(wire::kProtocolVersion) +
                            ", found " + std::to_string(common.protocol));
  }
  PHALANX_RETURN_IF_ERROR(os::check_parent(common.parent_pid));
  if (fds_.size() < kCommonFds) {
    return invalid_argument("the bootstrap record came with " + std::to_string(fds_.size()) +
                            " descriptors");
  }
  PHALANX_TRY(os::Lifeline lifeline, os::Lifeline::adopt(std::move(fds_[0])));
  lifeline_.emplace(std::move(lifeline));
  PHALANX_TRY(os::LifelineOwner owner, os::LifelineOwner::acquire(*lifeline_));
  owner_.emplace(std::move(owner));
  PHALANX_RETURN_IF_ERROR(os::record_crashes(lifeline_->crash_record()));
  pipe_ = std::move(fds_[1]);
  PHALANX_TRY(os::HangupWatch watch, os::HangupWatch::start({control_.fd(), pipe_.get()}));
  watch_.emplace(std::move(watch));
  log.flight = lifeline_->flight_area();
  obs::start_log(log);
  return ok();
}

Result<os::UniqueFd> ChildStart::take_fd(std::size_t index) {
  if (index + kCommonFds >= fds_.size() || !fds_[index + kCommonFds].valid()) {
    return invalid_argument("descriptor " + std::to_string(index + kCommonFds) +
                            " did not come with the bootstrap record");
  }
  return std::move(fds_[index + kCommonFds]);
}

void ChildStart::tell(const wire::ControlRecord& record) {
  const std::string bytes = wire::encode(record);
  if (std::holds_alternative<wire::ChildProgress>(record)) {
    static_cast<void>(control_.send(bytes));
  } else {
    static_cast<void>(control_.send_until(bytes, steady_clock().now() + kTellDeadline));
  }
}

void ChildStart::tell_failure(const Error& error) {
  tell(wire::ChildFailed{wire::error_code(error), wire::error_text(error.message())});
  owner_->fail();
}

int fail_child(ChildStart* start, const Error& error) {
  obs::log_error("child_failed", {{"error", error.to_string()}});
  if (start != nullptr) {
    start->tell_failure(error);
  }
  return error_traits(error.code()).exit_status;
}

int live_child(ChildStart& start, const std::function<Status()>& life) {
  try {
    const Status status = life();
    return status ? 0 : fail_child(&start, status.error());
  } catch (const std::exception& exception) {
    return fail_child(&start, error_of(exception));
  }
}

}  // namespace phalanx::fleet
