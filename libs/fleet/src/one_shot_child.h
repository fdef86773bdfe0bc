// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/unique_fd.h"
#include "phalanx/supervise/posix_process_runner.h"
#include "phalanx/wire/bootstrap.h"
#include "phalanx/wire/codec.h"

namespace phalanx::fleet {

// A child that is started once, says what it has made of its task, and ends. Its first error
// counts, and kills it: a record that cannot be read or taken, a signal that stopped it, the end of
// the patience with it, or what it says itself, after which only a wrapper is left its time.
//
// Ownership: owns the child, which its end kills.
// Threads: the loop thread.
class OneShotChild final : private supervise::ChildHost {
 public:
  enum class Heard {
    kProgress,  // patience begins anew
    kResult,    // it may end
  };
  struct Task {
    std::string what;   // "loader"
    std::string model;  // path that it reads, for people
    os::SpawnPlan spawn;
    Duration patience;  // with one that runs under no wrapper
    std::string late;   // the error of one that had no more of it
    // Called before the child is created. The descriptors live as long as the child.
    std::function<Result<supervise::Bootstrap>()> bootstrap;
    // Of every record but ChildFailed, until there is an error.
    std::function<Result<Heard>(wire::ControlRecord, std::vector<os::UniqueFd>)> on_record;
    // Once, when the child has ended: ok with its result. Called from inside of the runner: must
    // not destroy this.
    std::function<void(Status)> done;
  };

  // Starts with the next turn of the loop, before which it must not be destroyed.
  OneShotChild(os::EventLoop& loop, Task task);
  OneShotChild(const OneShotChild&) = delete;
  OneShotChild& operator=(const OneShotChild&) = delete;
  ~OneShotChild() override;

  // The record of a child of `spawn`.
  template <typename Record>
  [[nodiscard]] static std::string bootstrap_record(Record record, const os::SpawnPlan& spawn) {
    record.common.incarnation = kOnly;
    record.common.parent_pid = spawn.wrapped ? 0 : ::getpid();
    return wire::encode(wire::ControlRecord(std::move(record)));
  }

 private:
  static constexpr Incarnation kOnly{1};

  // ChildHost
  [[nodiscard]] os::SpawnPlan plan(std::size_t slot, Incarnation incarnation) override;
  [[nodiscard]] Result<supervise::Bootstrap> bootstrap(std::size_t slot,
                                                       Incarnation incarnation,
                                                       pid_t pid) override;
  void ask_to_stop(std::size_t) override {}
  void on_record(std::size_t slot,
                 Incarnation incarnation,
                 Result<os::ControlMessage> received) override;
  void on_dying(std::size_t, Incarnation) override {}
  void on_stopped_by_signal(std::size_t slot, Incarnation incarnation) override;
  void on_exit(const supervise::Death& death) override;

  void start();
  void arm();
  void hear(os::ControlMessage message);
  void keep(Error error);
  void end_by(Error error);
  void finish(Status status);

  os::EventLoop& loop_;
  Task task_;
  supervise::Bootstrap bootstrap_;
  bool has_result_ = false;
  std::optional<Error> error_;
  std::unique_ptr<os::EventLoop::Handle> timer_;
  std::unique_ptr<supervise::PosixProcessRunner> runner_;
};

}  // namespace phalanx::fleet
