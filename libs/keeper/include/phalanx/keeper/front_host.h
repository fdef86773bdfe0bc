// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/punctual_ticks.h"
#include "phalanx/base/result.h"
#include "phalanx/keeper/front_journal.h"
#include "phalanx/keeper/front_start.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/supervise/posix_process_runner.h"
#include "phalanx/supervise/slot_programs.h"
#include "phalanx/supervise/supervisor.h"
#include "phalanx/wire/bootstrap.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::keeper {

// How a front that had been ready ended.
struct FrontEnd {
  // It died of what it did: a fault, an exit, or a hang that it was killed for. False: of somebody
  // else's signal.
  bool is_own = false;
  std::shared_ptr<FrontJournal> journal;  // null: it had none
  std::uint64_t culprit = 0;  // what the crashed thread worked for; 0: one of the journal's marks
};

// Hears of the fronts. Loop thread; may call the host.
struct FrontCalls {
  std::function<void(std::size_t front)> on_ready;  // may be given connections
  // An error if no working front would send that; the front is then killed.
  std::function<Status(std::size_t front, const wire::FrontToLeader& record)> on_record;
  // It is killed and serves nobody from now on; it may take its time to die. on_gone() follows.
  std::function<void(std::size_t front)> on_killed = nullptr;
  // Its process is dead and reaped, and all that it said has been told. It is started again.
  // Returns whether its death is held against a request: such a death does not delay the start.
  std::function<bool(std::size_t front, const FrontEnd& end)> on_gone;
  std::function<void(const Error& cause)> on_first_start_failed;  // no front has ever been ready
  // A new program did not get ready: the previous one is run again.
  std::function<void(const Error& cause)> on_program_refused;
  // The descriptor of a connection, borrowed; -1: the connection has ended meanwhile.
  std::function<int(std::uint64_t connection)> socket_of;
};

// The fronts as processes: starts them, restarts them, and carries records. The first start is
// strict; once a front has been ready no death is final, and the next start is at most a second
// away. A front that is stopped, says nothing for kMaxQuietTicks or takes no record for
// kMaxStuckTicks is killed: nobody else may act for a connection before the front that had it is
// dead and reaped.
//
// Ownership: owns the processes and kills them with it; they own nothing. Borrows the loop.
// Threads: the loop thread; on_dying() runs on watcher threads and does nothing.
class FrontHost final : public supervise::ChildHost, public supervise::SupervisorListener {
 public:
  // Ticks of 100 ms, of which those count that base/punctual_ticks.h lets; a front says something
  // every second.
  static constexpr std::uint32_t kMaxStuckTicks = 50;
  static constexpr std::uint32_t kMaxQuietTicks = 100;
  // Of records that a front has not taken: beyond the first it is killed, beyond the second behind().
  static constexpr std::size_t kMaxUnsentBytes = std::size_t{64} << 20;
  static constexpr std::size_t kBehindBytes = std::size_t{1} << 20;

  FrontHost(os::EventLoop& loop, FrontStart start, FrontCalls calls);
  FrontHost(const FrontHost&) = delete;
  FrontHost& operator=(const FrontHost&) = delete;
  ~FrontHost() override;

  // `tokenizer`: sealed memory with the source of tokenizer and templates. `lifeline_pipe`: the
  // read end whose other end only the leader holds. Both stay the caller's.
  void start(int tokenizer, int lifeline_pipe);

  // Records arrive in order. One that the front does not take now is kept; without a front it is
  // dropped. A Connect carries the socket that FrontCalls::socket_of() names when it is sent, and
  // `journal`, from which its connection resumes.
  void send(std::size_t front,
            const wire::LeaderToFront& record,
            std::shared_ptr<const FrontJournal> journal = nullptr);

  // The journal of this life of the front; null if it has none.
  [[nodiscard]] const std::shared_ptr<FrontJournal>& journal(std::size_t front) const {
    return links_[front].journal;
  }
  [[nodiscard]] bool has_journal(std::size_t front) const { return journal(front) != nullptr; }

  // The next front to start tries this program; once it is ready there, all that start run it. If
  // it cannot be started, ends before it is ready or is not ready in time, the previous program
  // stays, and on_program_refused is told.
  void use_program(os::HeldProgram program);
  [[nodiscard]] const std::string& program_path() const { return programs_.path(); }
  // A front has been started with a program that is not proven, and is not ready yet.
  [[nodiscard]] bool on_trial() const { return programs_.trial().has_value(); }
  // It serves, not killed, and runs a program other than the newest one that is not refused.
  [[nodiscard]] bool outdated(std::size_t front) const {
    return links_[front].ready && !links_[front].killed && programs_.is_outdated(front);
  }

  // Whether this life of the front keeps something of the connection at that place.
  [[nodiscard]] bool holds(std::size_t front, std::uint32_t place, std::uint64_t connection) const {
    return has_journal(front) && links_[front].journal->holds(place, connection);
  }

  // Much of what it was sent it has not taken: what can wait should.
  [[nodiscard]] bool behind(std::size_t front) const {
    return links_[front].unsent_bytes > kBehindBytes;
  }

  // All end the front, if it lives, and its connections go the way of a dead front's. stop() starts
  // none in its place; the log calls what replace() does a renewal, and the others an end.
  void restart(std::size_t front);
  void stop(std::size_t front);
  void replace(std::size_t front);
  void on_tick();  // every supervise::kTickPeriod

  [[nodiscard]] std::size_t size() const { return links_.size(); }
  [[nodiscard]] bool ready(std::size_t front) const { return links_[front].ready; }
  [[nodiscard]] bool ever_ready() const { return ever_ready_; }
  [[nodiscard]] supervise::SlotStatus status(std::size_t front) const {
    return supervisor_->status(front);
  }

  // ChildHost
  [[nodiscard]] os::SpawnPlan plan(std::size_t slot, Incarnation incarnation) override;
  [[nodiscard]] Result<supervise::Bootstrap> bootstrap(std::size_t slot,
                                                       Incarnation incarnation,
                                                       pid_t pid) override;
  void ask_to_stop(std::size_t slot) override;
  void on_record(std::size_t slot, Incarnation, Result<os::ControlMessage> received) override;
  void on_dying(std::size_t, Incarnation) override {}
  void on_stopped_by_signal(std::size_t slot, Incarnation incarnation) override;
  void on_exit(const supervise::Death& death) override;

  // SupervisorListener
  void on_slot_ready(std::size_t slot, Incarnation incarnation) override;
  void on_slot_down(std::size_t, Incarnation) override {}
  void on_slot_death(const supervise::Death& death) override;
  void on_slot_failed(std::size_t slot, const Error& cause) override;
  void on_slot_stopped(std::size_t) override {}
  void on_slot_stuck(std::size_t slot, pid_t pid) override;

 private:
  struct Unsent {
    std::string bytes;
    std::uint64_t connection = 0;  // of a Connect
    std::shared_ptr<const FrontJournal> journal;
  };
  struct Kill {
    std::string why;
    bool at_fault = false;      // for what the front did, or did not do
    std::uint64_t culprit = 0;  // for this connection, if that is known
  };
  struct Link {
    bool ready = false;
    std::optional<Kill> killed;   // its end is on the way
    const char* asked = nullptr;  // what the log calls an end that was asked for
    std::shared_ptr<FrontJournal> journal;
    std::uint32_t quiet_ticks = 0;  // ticks on time since its last record
    std::deque<Unsent> unsent;
    std::size_t unsent_bytes = 0;
    std::uint32_t stuck_ticks = 0;  // … with something unsent that it does not take
    std::unique_ptr<os::EventLoop::Handle> retry;
  };

  [[nodiscard]] static FrontEnd end_of(const Link& link, const supervise::Death& death);
  void on_bad_record(std::size_t slot, const Error& error, std::uint64_t culprit);
  void on_start_record(std::size_t slot, Incarnation incarnation, const std::string& bytes);
  [[nodiscard]] bool send_now(std::size_t front, const Unsent& record);
  void flush(std::size_t front);
  void kill(std::size_t front, const Kill& kill);
  void judge_trial(SteadyTime now);
  void refuse_program(std::size_t slot, const std::string& why);
  [[nodiscard]] Result<std::shared_ptr<FrontJournal>> make_journal(std::size_t front);
  void arm();

  os::EventLoop& loop_;
  FrontStart start_;
  FrontCalls calls_;
  int tokenizer_ = -1;
  int lifeline_pipe_ = -1;
  bool ever_ready_ = false;
  bool had_journal_ = false;  // some front
  std::vector<Link> links_;
  supervise::SlotPrograms programs_;
  const char* asked_ = nullptr;  // … of the death that is being told
  std::unique_ptr<supervise::PosixProcessRunner> runner_;
  std::unique_ptr<supervise::Supervisor> supervisor_;
  std::unique_ptr<os::EventLoop::Handle> wake_;  // at the supervisor's next deadline
  PunctualTicks ticks_;
  SteadyTime last_death_{};
};

}  // namespace phalanx::keeper
