// SPDX-License-Identifier: Apache-2.0
#include "phalanx/supervise/posix_process_runner.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <system_error>
#include <utility>
#include <variant>

#include "phalanx/base/check.h"
#include "phalanx/base/clock.h"
#include "phalanx/base/thread_time.h"
#include "phalanx/obs/flight_ring.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/child_side.h"
#include "phalanx/os/machine.h"

namespace phalanx::supervise {

namespace {

// Records taken from one child before the loop turns to others.
constexpr int kRecordsPerTurn = 32;
constexpr Duration kTurnTime =
    std::chrono::milliseconds(1);  // of CPU, beyond which no other begins
// Of one that has died all that it said counts, however long it takes; its socket holds fewer, and
// only what it left behind could add to them.
constexpr int kLastRecords = 1024;
constexpr Duration kLastTime = std::chrono::hours(1);  // of CPU: no limit
constexpr std::size_t kLastLines = 8;
constexpr auto kMemoryPeriod = std::chrono::seconds(1);
// Between looks at what a wrapper leaves behind: it was killed, or its parent-death signal has come.
constexpr auto kRestPoll = std::chrono::milliseconds(2);
// By convention of shells: the command was ended by signal status - 128.
constexpr int kSignalStatusBase = 128;

using Handle = std::unique_ptr<os::EventLoop::Handle>;

}  // namespace

// Destroyed from the last member to the first: the watching ends, then the process, then the thread
// that waits for its lifeline, then the page.
struct PosixProcessRunner::Child {
  Incarnation incarnation;
  os::Lifeline lifeline;
  std::unique_ptr<os::LifelineWatch> watch;
  os::ChildProcess process;
  Handle exit_handle;
  Handle control_handle;
  bool wrapped = false;  // it is a command that runs the child
  bool killed = false;   // by this process
  bool stopped = false;  // … while it stood still
};

struct PosixProcessRunner::Impl {
  Impl(std::size_t count, os::EventLoop& event_loop, ChildHost& child_host)
      : loop(event_loop), host(child_host), children(count) {}

  os::EventLoop& loop;
  ChildHost& host;
  std::vector<std::unique_ptr<Child>> children;  // by slot
  Handle child_signal;
  // Of the memory cgroup: a second ago, and at the second before that.
  std::optional<std::uint64_t> memory_kills = os::out_of_memory_kills();
  std::optional<std::uint64_t> earlier_memory_kills = memory_kills;
  Handle memory_timer;
  std::atomic<bool> closing{false};  // the host hears of no death any more

  [[nodiscard]] Result<std::unique_ptr<Child>> create(std::size_t slot, Incarnation incarnation);
  [[nodiscard]] Status introduce(std::size_t slot, Child& child);
  [[nodiscard]] Status watch(std::size_t slot, Child& child);
  void read_control(std::size_t slot, int records_max, Duration time_max);
  [[nodiscard]] DeathOrigin origin_of(const Child& child, const os::ExitReason& reason) const;
  void reap(std::size_t slot);
  [[nodiscard]] static bool worker_remains(const Child& child);
  void on_child_signal();
  void count_memory_kills();
};

Result<std::unique_ptr<PosixProcessRunner::Child>> PosixProcessRunner::Impl::create(
    std::size_t slot, Incarnation incarnation) {
  PHALANX_TRY(os::Lifeline lifeline, os::Lifeline::create());
  const os::SpawnPlan plan = host.plan(slot, incarnation);
  PHALANX_TRY(os::ChildProcess process, os::ChildProcess::spawn(plan));
  return std::make_unique<Child>(Child{incarnation,
                                       std::move(lifeline),
                                       nullptr,
                                       std::move(process),
                                       nullptr,
                                       nullptr,
                                       plan.wrapped,
                                       false,
                                       false});
}

// Tells the child what it is. Its control socket is empty, so a record that does not fit into it
// now never will.
Status PosixProcessRunner::Impl::introduce(std::size_t slot, Child& child) {
  PHALANX_TRY(const Bootstrap bootstrap,
              host.bootstrap(slot, child.incarnation, child.process.pid()));
  std::vector<int> fds{child.lifeline.fd()};
  fds.insert(fds.end(), bootstrap.fds.begin(), bootstrap.fds.end());
  PHALANX_TRY(const os::ControlSent sent, child.process.control().send(bootstrap.record, fds));
  if (sent == os::ControlSent::kWouldBlock) {
    return resource_exhausted("the bootstrap record of " + std::to_string(bootstrap.record.size()) +
                              " bytes does not fit into the control socket");
  }
  if (sent == os::ControlSent::kTooManyDescriptors) {
    return os::too_many_descriptors();
  }
  // kClosed: the child is dead already, which its pidfd will tell.
  return watch(slot, child);
}

// Where a limit leaves no thread or no place in epoll, the child is as one that cannot be had.
Status PosixProcessRunner::Impl::watch(std::size_t slot, Child& child) {
  const auto on_death = [this, slot, incarnation = child.incarnation] {
    if (!closing) {
      host.on_dying(slot, incarnation);
    }
  };
  try {
    child.watch = std::make_unique<os::LifelineWatch>(child.lifeline, on_death);
  } catch (const std::system_error& error) {
    return resource_exhausted(
        std::string("expected a thread to watch a child (see ulimit -u and -d, and the number of "
                    "processes that a container or unit may have), found: ") +
        error.what());
  }
  PHALANX_TRY(child.exit_handle,
              loop.watch_readable(child.process.pidfd(), [this, slot] { reap(slot); }));
  PHALANX_TRY(child.control_handle, loop.watch_readable(child.process.control().fd(), [this, slot] {
    read_control(slot, kRecordsPerTurn, kTurnTime);
  }));
  return ok();
}

// Only reap() lets go of a child, so it is there whatever the host does in on_record().
void PosixProcessRunner::Impl::read_control(std::size_t slot, int records_max, Duration time_max) {
  const CpuTimeLimit limit(time_max);
  Child& child = *children[slot];
  for (int i = 0; i < records_max && !(i > 0 && limit.passed()); ++i) {
    auto received = child.process.control().receive();
    if (!received) {
      host.on_record(slot, child.incarnation, std::move(received).error());
      continue;
    }
    if (std::holds_alternative<os::ControlWouldBlock>(*received)) {
      return;
    }
    if (std::holds_alternative<os::ControlEnd>(*received)) {
      // Its death follows by the pidfd; an end of file stays readable and would spin the loop.
      child.control_handle.reset();
      return;
    }
    host.on_record(slot, child.incarnation, std::get<os::ControlMessage>(*std::move(received)));
  }
}

void PosixProcessRunner::Impl::reap(std::size_t slot) {
  loop.name_callback("the end of a child");
  // What the child said last, its reason above all, comes before the news of its death.
  read_control(slot, kLastRecords, kLastTime);
  Child& child = *children[slot];
  const auto reason = child.process.poll_exit();
  if (child.process.leaves_group() || (reason && worker_remains(child))) {
    child.exit_handle = loop.call_after(kRestPoll, [this, slot] { reap(slot); });
    return;
  }
  if (!reason) {
    return;
  }
  Death death;
  death.slot = slot;
  death.incarnation = child.incarnation;
  death.reason = *reason;
  death.origin = origin_of(child, *reason);
  if (const auto crash = child.lifeline.crash_record().read()) {
    death.work = crash->work;
  }
  death.lines = obs::FlightRing(child.lifeline.flight_area()).lines(kLastLines);
  children[slot].reset();
  host.on_exit(death);
}

// A wrapper may have put the child into a group of its own (debuggers do); the kernel has told it
// to end with its parent.
bool PosixProcessRunner::Impl::worker_remains(const Child& child) {
  const pid_t worker = child.lifeline.owner_seen_here();
  return child.wrapped && worker != 0 && worker != child.process.pid() && ::kill(worker, 0) == 0;
}

DeathOrigin PosixProcessRunner::Impl::origin_of(const Child& child,
                                                const os::ExitReason& reason) const {
  const std::optional<os::Crash> crash = child.lifeline.crash_record().read();
  const auto* const signaled = std::get_if<os::Signaled>(&reason);
  if (child.wrapped && crash) {
    return os::is_own(*crash, child.lifeline.owner()) ? DeathOrigin::kOwn : DeathOrigin::kSent;
  }
  if (child.wrapped && !child.killed) {
    // The end of the wrapper tells only of statuses that the child has left with.
    const auto* const exited = std::get_if<os::Exited>(&reason);
    return exited != nullptr && exited->status < kSignalStatusBase ? DeathOrigin::kOwn
                                                                   : DeathOrigin::kSent;
  }
  if (signaled == nullptr) {
    return DeathOrigin::kOwn;
  }
  if (os::is_crash(reason)) {
    // Without a record the handler had no stack left to run on, which no sent signal brings about.
    return !crash || os::is_own(*crash, child.process.pid()) ? DeathOrigin::kOwn
                                                             : DeathOrigin::kSent;
  }
  if (child.killed) {
    return child.stopped ? DeathOrigin::kStopped : DeathOrigin::kSent;
  }
  const bool memory_ran_out = signaled->signal == SIGKILL && earlier_memory_kills &&
                              os::out_of_memory_kills() > earlier_memory_kills;
  return memory_ran_out ? DeathOrigin::kOwn : DeathOrigin::kSent;
}

// A death is reaped within the second in which the kernel counted it, or in the next.
void PosixProcessRunner::Impl::count_memory_kills() {
  earlier_memory_kills = memory_kills;
  memory_kills = os::out_of_memory_kills();
}

void PosixProcessRunner::Impl::on_child_signal() {
  os::reap_adopted();
  for (std::size_t slot = 0; slot < children.size(); ++slot) {
    Child* const child = children[slot].get();
    if (child != nullptr && child->process.take_stopped()) {
      host.on_stopped_by_signal(slot, child->incarnation);
    }
  }
}

PosixProcessRunner::PosixProcessRunner(std::size_t slots, os::EventLoop& loop, ChildHost& host)
    : impl_(std::make_unique<Impl>(slots, loop, host)) {
  impl_->child_signal =
      loop.watch_signal(SIGCHLD, [impl = impl_.get()](int) { impl->on_child_signal(); });
  impl_->memory_timer =
      loop.call_every(kMemoryPeriod, [impl = impl_.get()] { impl->count_memory_kills(); });
}

PosixProcessRunner::~PosixProcessRunner() {
  impl_->closing = true;
  impl_->child_signal.reset();
  // All at once, so that they are torn down side by side.
  for (std::size_t slot = 0; slot < impl_->children.size(); ++slot) {
    signal(slot, SIGKILL);
  }
  impl_->children.clear();
}

Result<pid_t> PosixProcessRunner::spawn(std::size_t slot, Incarnation incarnation) {
  PHALANX_CHECK(slot < impl_->children.size() && impl_->children[slot] == nullptr,
                "a slot holds at most one process");
  PHALANX_TRY(std::unique_ptr<Child> child, impl_->create(slot, incarnation));
  PHALANX_RETURN_IF_ERROR(impl_->introduce(slot, *child));
  const pid_t pid = child->process.pid();
  impl_->children[slot] = std::move(child);
  return pid;
}

void PosixProcessRunner::ask_to_stop(std::size_t slot) {
  if (impl_->children.at(slot) != nullptr) {
    impl_->host.ask_to_stop(slot);
  }
}

void PosixProcessRunner::signal(std::size_t slot, int signal) {
  Child* const child = impl_->children.at(slot).get();
  if (child == nullptr) {
    return;
  }
  if (signal == SIGKILL && !child->killed) {
    child->stopped = child->process.is_stopped();
    child->killed = true;
  }
  if (Status status = child->process.signal(signal); !status) {
    obs::log_warn("signal_failed", {{"slot", slot}, {"error", status.error().message()}});
  }
}

Result<os::ControlSent> PosixProcessRunner::send(std::size_t slot,
                                                 const std::string& record,
                                                 std::span<const int> fds) {
  Child* child = impl_->children.at(slot).get();
  if (child == nullptr) {
    return os::ControlSent::kClosed;
  }
  return child->process.control().send(record, fds);
}

const os::Lifeline* PosixProcessRunner::lifeline(std::size_t slot) const {
  const Child* child = impl_->children.at(slot).get();
  return child == nullptr ? nullptr : &child->lifeline;
}

std::vector<pid_t> PosixProcessRunner::pids() const {
  std::vector<pid_t> pids;
  for (const auto& child : impl_->children) {
    if (child != nullptr) {
      pids.push_back(child->process.pid());
    }
  }
  return pids;
}

}  // namespace phalanx::supervise
