// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/child_side.h"
#include "phalanx/os/control_socket.h"
#include "phalanx/os/lifeline.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::fleet {

// Who the lines of a child's log are from, and from which level on.
[[nodiscard]] obs::LogOptions log_options(const wire::PlannerBootstrap& bootstrap);
[[nodiscard]] obs::LogOptions log_options(const wire::LoaderBootstrap& bootstrap);
[[nodiscard]] obs::LogOptions log_options(const wire::ReplicaBootstrap& bootstrap);
[[nodiscard]] obs::LogOptions log_options(const wire::RankBootstrap& bootstrap);
[[nodiscard]] obs::LogOptions log_options(const wire::FrontBootstrap& bootstrap);

// A child that has heard what it is: parent-death signal set, lifeline held, crashes recorded,
// hang-up watched, log begun.
//
// Ownership: everything lives until the process ends.
class ChildStart {
 public:
  ChildStart() = default;
  ChildStart(const ChildStart&) = delete;
  ChildStart& operator=(const ChildStart&) = delete;
  ~ChildStart();

  // Waits for the bootstrap record of this process, which must be a `Bootstrap`, and takes its
  // common part.
  template <typename Bootstrap>
  [[nodiscard]] static Result<std::unique_ptr<ChildStart>> begin(Bootstrap* bootstrap) {
    PHALANX_TRY(std::unique_ptr<ChildStart> start, receive());
    auto* const record = std::get_if<Bootstrap>(&start->record_);
    if (record == nullptr) {
      return invalid_argument("the control socket gave the bootstrap record of another role");
    }
    *bootstrap = std::move(*record);
    PHALANX_RETURN_IF_ERROR(start->follow(bootstrap->common, log_options(*bootstrap)));
    return start;
  }

  // The descriptor at `index` behind the two that every child gets; each can be taken once.
  [[nodiscard]] Result<os::UniqueFd> take_fd(std::size_t index);

  [[nodiscard]] os::ControlSocket& control() { return control_; }
  [[nodiscard]] const os::Lifeline& lifeline() const { return *lifeline_; }

  // One sign of progress of the main thread; any thread may call it.
  void bump_progress() { lifeline_->progress()[0].fetch_add(1, std::memory_order_relaxed); }

  // The leader's lifeline pipe, for handing on to children of this process.
  [[nodiscard]] int lifeline_pipe() const { return pipe_.get(); }

  // Tells the parent over the control socket; a parent that has gone hears nothing. One that has
  // not read what came before misses progress, and nothing else.
  // Blocks: for anything but progress until the parent reads, 10 minutes at most.
  void tell(const wire::ControlRecord& record);

  // Tells the parent why this child ends, and lets go of the lifeline as a death does, so that
  // nobody waits for the end of the process. Main thread.
  void tell_failure(const Error& error);

 private:
  [[nodiscard]] static Result<std::unique_ptr<ChildStart>> receive();
  [[nodiscard]] Status follow(const wire::ChildCommon& common, obs::LogOptions log);

  os::ControlSocket control_;
  wire::ControlRecord record_;
  std::vector<os::UniqueFd> fds_;
  os::UniqueFd pipe_;
  std::optional<os::Lifeline> lifeline_;
  std::optional<os::LifelineOwner> owner_;
  std::optional<os::HangupWatch> watch_;
};

// Ends a child that cannot go on: one line on the control socket and in the log, and the exit
// status of the error.
[[nodiscard]] int fail_child(ChildStart* start, const Error& error);

// Runs the life of a child that has started, and returns its exit status. An exception that leaves
// `life` is a failure like any other.
[[nodiscard]] int live_child(ChildStart& start, const std::function<Status()>& life);

}  // namespace phalanx::fleet
