// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/desk/front_desk.h"
#include "phalanx/desk/request_metrics.h"
#include "phalanx/dispatch/admission.h"
#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/keeper/connection_table.h"
#include "phalanx/keeper/doors.h"
#include "phalanx/keeper/front_host.h"
#include "phalanx/keeper/front_renewal.h"
#include "phalanx/keeper/hand_over.h"
#include "phalanx/keeper/hand_over_queue.h"
#include "phalanx/keeper/quarantine.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::keeper {

// What a front asks of the server as a whole.
struct Answer {
  int status = 200;  // of HTTP
  std::string text;
};

// What the leader does for the fronts, and hears of them. Loop thread.
struct FrontsCalls {
  // Why no request may be generated for now, or nothing.
  std::function<Status()> accepting;
  std::function<Answer(wire::QueryKind kind)> answer;
  std::function<void()> on_ready;                     // a front may serve (again)
  std::function<void(const Error& cause)> on_failed;  // none has ever been ready, and none will
  std::function<void()> on_drained;                   // after drain(): no connection is left
};

struct FrontsParts {
  dispatch::Dispatcher& dispatcher;
  dispatch::Admission& admission;
  desk::RequestMetrics& metrics;
};

// What a front last said of itself, for metrics and status.
struct FrontView {
  supervise::SlotStatus slot;
  bool active = false;         // it gets connections; false: it is spare, or not ready
  bool is_quarantine = false;  // it works for a suspect, and lives only for that
  std::size_t connections = 0;
  wire::FrontTimes times;
};

// What became of connections whose front died, counted.
struct LeftConnections {
  std::uint64_t kept = 0;     // at rest, and gone on with
  std::uint64_t resumed = 0;  // gone on with in the middle of something
  std::uint64_t cut = 0;      // ended with their front, or waited too long for another one
};

// Everything that clients reach the leader by: the port, the fronts that speak with them, and the
// desk where their requests are. When a front has died, another one goes on with those of its
// connections that were at rest, by the kernel's account (os/tcp_account.h), and with those that it
// has left in its journal; the others end. A connection that a front has died of is gone on with by
// one that has no other, until it is at rest. If two of those die of it, what it was in the middle
// of fails.
//
// Ownership: borrows the loop and the parts, which must outlive it.
// Threads: the loop thread (open() may run before the loop does).
// Blocks: never.
class Fronts {
 public:
  // Binds the port; start() starts the fronts.
  // Errors: as Doors::open()
  [[nodiscard]] static Result<std::unique_ptr<Fronts>> open(os::EventLoop& loop,
                                                            const DoorOptions& doors,
                                                            FrontStart start,
                                                            const FrontsParts& parts,
                                                            FrontsCalls calls);
  Fronts(const Fronts&) = delete;
  Fronts& operator=(const Fronts&) = delete;
  ~Fronts() = default;

  // As FrontHost::start().
  void start(int tokenizer, int lifeline_pipe);

  // No new connections; those there end with their answers. on_drained follows.
  void drain();

  // Behind drain(), when that has taken long enough: what has no answer yet gets a last one, and a
  // second later everything is cut.
  void end_answers();

  // Replaces the fronts one after the other, the spare one first: connections at rest go to another
  // front, and those that are in the middle of something a moment later go on there as behind a
  // death. One that would end of that is waited for, but not for ever. Called again while it is
  // under way, it is done once more. They run what lies at `program` then, or, if it is empty,
  // where their program was found; if that does not even get ready, the one before it stays and
  // nothing else is replaced.
  // Errors: as os::HeldProgram::open(); kFailedPrecondition if that would end connections.
  [[nodiscard]] Status renew(const std::string& program);
  [[nodiscard]] bool renewing() const;  // one that is to be replaced is still there

  void on_tick();  // every supervise::kTickPeriod

  [[nodiscard]] std::uint16_t port() const { return doors_->port(); }
  [[nodiscard]] bool ever_ready() const { return host_->ever_ready(); }
  // Connections that would be cut off from an answer if the fronts ended now: with a request that
  // has a place, or with an answer that their front has not given to the socket to its end.
  [[nodiscard]] std::size_t unanswered() const;
  [[nodiscard]] std::vector<FrontView> views() const;
  [[nodiscard]] const LeftConnections& left_connections() const { return left_count_; }
  // Connections that a front may have died of: that are worked for alone, or wait for that.
  [[nodiscard]] std::size_t suspects() const { return quarantine_->size(); }

 private:
  Fronts(os::EventLoop& loop, FrontsCalls calls);
  [[nodiscard]] Status init(const DoorOptions& doors, FrontStart start, const FrontsParts& parts);

  [[nodiscard]] FrontCalls host_calls();
  [[nodiscard]] Quarantine::Calls quarantine_calls();
  void on_ready(std::size_t front);
  [[nodiscard]] desk::DeskParts desk_parts(const FrontsParts& parts);
  [[nodiscard]] Status on_record(std::size_t front, const wire::FrontToLeader& record);
  [[nodiscard]] Status on_disconnected(std::size_t front, const wire::Disconnected& ended);
  [[nodiscard]] Status on_released(std::size_t front, const wire::Released& released);
  [[nodiscard]] Status on_rest(std::size_t front, const wire::AtRest& rest);
  void give(std::size_t front, const FrontConnection& connection);
  void on_killed(std::size_t front);
  void answer(std::size_t front, const wire::Query& query);
  void disconnect(std::uint64_t connection);
  void on_left(std::size_t front);
  [[nodiscard]] bool on_gone(std::size_t front, const FrontEnd& end);
  [[nodiscard]] HandOverQueue::Calls hand_over_calls();
  [[nodiscard]] std::size_t taking_over() const;
  void give_back_later();
  [[nodiscard]] Fate hand_on(ConnectionTable::Orphan orphan, const Verdict& verdict);
  [[nodiscard]] bool is_sent_to(std::uint64_t connection) const;
  [[nodiscard]] std::optional<os::TcpAccount> account_of(std::uint64_t connection) const;
  [[nodiscard]] FrontRenewal::Calls renewal_calls();
  [[nodiscard]] bool would_cut(std::size_t front) const;
  void tell_drained();
  void drop_left_by_clients();
  void drop_unserved(const std::set<std::uint64_t>& connections);

  os::EventLoop& loop_;
  FrontsCalls calls_;
  std::unique_ptr<desk::FrontDesk> desk_;
  std::unique_ptr<ConnectionTable> table_;
  std::unique_ptr<FrontHost> host_;
  std::size_t quarantine_front_ = 0;  // the last one
  std::unique_ptr<Quarantine> quarantine_;
  std::unique_ptr<Doors> doors_;
  std::unique_ptr<HandOverQueue> hand_overs_;
  std::unique_ptr<os::EventLoop::Handle> hand_over_timer_;
  std::unique_ptr<os::EventLoop::Handle> flush_timer_;
  std::vector<std::shared_ptr<FrontJournal>> old_journals_;  // of dead fronts
  std::unique_ptr<os::EventLoop::Handle> giving_back_;
  std::vector<wire::FrontTimes> times_;  // by front, of its life …
  std::vector<wire::FrontTimes> gone_;   // … and what those before it have counted
  std::unique_ptr<FrontRenewal> renewal_;
  bool accounts_ = false;  // this kernel's account of a connection can be relied on
  LeftConnections left_count_;
  SteadyTime served_{};     // a front was active
  SteadyTime looked_at_{};  // those that wait for one, whether their clients have left
  bool draining_ = false;
  bool drained_told_ = false;
  bool answers_end_ = false;
};

}  // namespace phalanx::keeper
